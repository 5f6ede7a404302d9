"""`simplepcfg test`: a model against linguistic materials, one command for each kind of them."""

import typer

from simplepcfg.cli import minimal_pairs, reading_times, syntaxgym
from simplepcfg.cli.output import write_lines

NAME = "test"
SUMMARY = "Test runs on minimal pairs, test suites and reading times."

app = typer.Typer(rich_markup_mode=None)
for module in (minimal_pairs, syntaxgym, reading_times):
    app.command(module.NAME, short_help=module.SUMMARY)(module.command)


@app.callback(invoke_without_command=True)
def top(context: typer.Context) -> None:
    """Test runs on linguistic materials.

    \b
    Example:
      simplepcfg test minimal-pairs runs/demo blimp/anaphor_gender_agreement.jsonl
      simplepcfg test syntaxgym runs/demo suites/number_prep.json
      simplepcfg test reading-times runs/demo words.tsv
    """
    if context.invoked_subcommand is None:
        write_lines([context.get_help()])
