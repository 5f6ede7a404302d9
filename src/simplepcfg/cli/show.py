"""`simplepcfg show`: what a run's symbols are used for."""

from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Json, Quiet, refuse_baseline
from simplepcfg.cli.output import note, results_console, write_json, write_lines
from simplepcfg.cli.requests import arg, opt
from simplepcfg.errors import counted, shortened

if TYPE_CHECKING:
    from rich.table import Table

    from simplepcfg.inference.inspection import Child, SymbolReport, SymbolUse

SUMMARY = "Show what a run's symbols are used for."
WIDEST_SPAN = 60  # characters of a span in the table; JSON has all of it


def command(
    run: str = arg("RUN", "Folder of a trained run, or english."),
    text: str | None = arg("TEXT", "Sentences or trees to count uses on; - is standard input.", None),
    top: int = opt("--top", "K", "Show the K most used symbols of either kind.", 20, min=1),
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Show the most used symbols: expected uses, likeliest children, words, and spans of the text.

    Uses are expectations over all derivations of TEXT. Without it they are counted on the run's own validation or
    training text (the first 1,000 sentences) if that is still there, else expected of 1,000 sentences that the grammar
    itself makes. With trees each symbol has the gold label that its spans have most often, and how often.

    \b
    Example:
      simplepcfg show runs/demo
      simplepcfg show runs/demo test.trees
      simplepcfg show runs/demo sentences.txt --top 50 --json symbols.json
    """
    from simplepcfg.data.readers import read_sentences, read_trees, sniff
    from simplepcfg.inference.inspection import OWN_SENTENCES, describe_symbols
    from simplepcfg.inference.run import load

    refuse_baseline(run, "symbols")
    model = load(run, device)
    sentences = None
    if text is not None:
        sentences = list(
            read_trees(text) if sniff(text) == "trees" else read_sentences(text, split=model.preprocessing.split)
        )
    report = describe_symbols(model, sentences, top=top, source=text or "")
    if text is None:
        most = "" if report.sentences is None else f" (its first {OWN_SENTENCES:,} sentences at most)"
        note(f"uses are counted on {report.source}{most}", quiet)
    if json != "-":
        write_lines(summary(report))
        console = results_console()
        console.print(symbol_table("nonterminals", report.nonterminals))
        console.print(symbol_table("preterminals", report.preterminals))
    write_json(json, report.to_dict())


def summary(report: "SymbolReport") -> list[str]:
    """Return lines that say how many symbols are really used."""
    over = "1,000 sentences of the grammar's own" if report.sentences is None else counted(report.sentences, "sentence")
    usages = {"nonterminals": report.nonterminal_usage, "preterminals": report.preterminal_usage}
    return [f"expected uses over {over}"] + [
        f"{kind}: {usage.used:,} of {usage.symbols:,} have 1 or more expected uses; "
        f"{usage.covering:,} have 99 % of all uses; perplexity of use {usage.perplexity:.1f}"
        for kind, usage in usages.items()
    ]


def symbol_table(title: str, uses: "list[SymbolUse]") -> "Table":
    """Return a table with a row for each symbol; columns that would be empty are left out."""
    from simplepcfg.evaluation.rendering import rich_grid

    columns = {
        "symbol": [use.symbol for use in uses],
        "uses": [f"{use.uses:,.2f}" for use in uses],
        "share": [f"{100 * use.share:.1f} %" for use in uses],
    }
    if any(use.label for use in uses):
        columns["gold label"] = [_weighted([use.label], 1) if use.label else "–" for use in uses]
    if any(use.left for use in uses):
        columns["left child"] = [_weighted([_named(child) for child in use.left], 3) for use in uses]
        columns["right child"] = [_weighted([_named(child) for child in use.right], 3) for use in uses]
    if any(use.words for use in uses):
        columns["words"] = [_weighted(use.words, 5) for use in uses]
    if any(use.examples for use in uses):
        columns["frequent spans"] = [
            "\n".join(shortened(text, WIDEST_SPAN) for text, _ in use.examples[:3]) for use in uses
        ]
    words = [number for number, name in enumerate(columns) if name not in ("uses", "share")]
    return rich_grid(list(columns), list(zip(*columns.values(), strict=True)), title, words)


def _named(child: "Child") -> tuple[str, float]:
    return (child.symbol if child.word is None else f"{child.symbol} ({child.word})"), child.probability


def _weighted(items: list[tuple[str, float]], most: int) -> str:
    """Return the first ones, without those that would read as 0 % beside greater ones."""
    shown = [item for item in items[:most] if item[1] >= 0.005] or items[:most]
    return "\n".join(f"{name} {100 * share:.0f} %" if share >= 0.005 else f"{name} <1 %" for name, share in shown)
