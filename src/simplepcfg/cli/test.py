"""`simplepcfg test`: a model against linguistic materials, one command for each kind of them."""

from simplepcfg.cli import minimal_pairs, reading_times, syntaxgym
from simplepcfg.cli.progress import shows_progress
from simplepcfg.cli.requests import group

SUMMARY = "Test runs on minimal pairs, test suites and reading times."

app = group(
    """Test runs on linguistic materials.

    \b
    Example:
      simplepcfg test minimal-pairs runs/demo blimp/anaphor_gender_agreement.jsonl
      simplepcfg test syntaxgym runs/demo suites/number_prep.json
      simplepcfg test reading-times runs/demo words.tsv
    """
)
for module in (minimal_pairs, syntaxgym, reading_times):
    app.command(module.NAME, short_help=module.SUMMARY)(shows_progress(module.command))
