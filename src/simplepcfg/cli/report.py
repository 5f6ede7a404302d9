"""`simplepcfg report`: figures and tables of runs in one HTML file."""

from pathlib import Path
from random import Random

from simplepcfg.cli.options import Device, Quiet, refuse_baseline
from simplepcfg.cli.output import note
from simplepcfg.cli.requests import arg, opt, written
from simplepcfg.errors import InputError

SUMMARY = "Show runs in one HTML file."


def command(
    arguments: list[str] = arg("RUN... [TREES]", "Folders of trained runs; last, a file of gold trees."),
    out: str = written("--out", "The HTML file to write.", "report.html"),
    limit: int = opt("--limit", "N", "Look at N trees, chosen at random.", 1000, min=1),
    seed: int = opt("--seed", "N", "Which trees are chosen.", 0, min=0),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Write learning curves, scores, symbols and parses of runs into one file that needs no network.

    Without TREES there are learning curves and symbols alone. Trees are chosen by span marginals; symbols are those of
    the most probable trees.

    \b
    Example:
      simplepcfg report runs/demo runs/demo/test.trees
      simplepcfg report runs/a runs/b test.trees --out compare.html
    """
    names = list(arguments)
    file = names.pop() if len(names) > 1 and not Path(names[-1]).is_dir() else None
    for name in names:
        refuse_baseline(name, "record to report")
    if out == "-":
        raise InputError("--out - is no file; give one, such as report.html")
    from simplepcfg.data.readers import read_trees, sniff
    from simplepcfg.files import write_text
    from simplepcfg.inference.run import load
    from simplepcfg.inference.systems import unique_names
    from simplepcfg.reports import make_report

    trees, source = None, file or ""
    if file is not None:
        if sniff(file) == "text":
            raise InputError(f"{file} holds no bracketed trees, of which a report is made; give trees, or leave it out")
        trees = list(read_trees(file))
        if len(trees) > limit:
            note(f"{file}: {limit:,} of {len(trees):,} trees, chosen at random (--seed {seed}); see --limit", quiet)
            source = f"{file}, chosen at random (seed {seed})"
            trees = [trees[place] for place in sorted(Random(seed).sample(range(len(trees)), limit))]
    runs = unique_names([load(name, device) for name in names])
    report = make_report(runs, trees, source=source, remark=lambda text: note(text, quiet))
    write_text(Path(out), report.to_html())
    note(f"written: {out}", quiet)
