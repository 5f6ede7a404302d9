"""`simplepcfg demo`: the whole way from raw sentences to trees on a treebank that comes with the package."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Quiet
from simplepcfg.cli.output import note, results_console, write_lines
from simplepcfg.cli.requests import opt
from simplepcfg.drawing.text_trees import nested_words
from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from simplepcfg.evaluation.report import EvaluationReport
    from simplepcfg.evaluation.treebank import Treebank
    from simplepcfg.inference.run import Run
    from simplepcfg.runs.config.schema import RunConfig

SUMMARY = "Learn from the built-in treebank, then show results."
CONFIG = "demo"
# The built-in treebank as files in the run's folder, so that whatever the demo prints can be pasted.
TRAIN, VALID, TEST = "train.txt", "valid.txt", "test.trees"
SIZES = {TRAIN: (8000, 1), VALID: (500, 2), TEST: (500, 3)}  # sentences and seed: independent draws from one grammar
# On the test trees above: of the grammar that they were drawn from, and of words by their counts in the training text.
TRUE_PERPLEXITY, OF_WORDS = 32.86, {"unigram": 163.83, "uniform": 422.0}
DRAWN = 3
DRAWN_LENGTHS = range(5, 9)


def command(
    out: Path = opt("--out", "DIR", "Folder of the demo's run.", Path("runs/demo")),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train a small SN-PCFG on the built-in treebank's raw sentences and compare its trees with gold.

    If the folder holds the demo already, an interrupted one goes on and a finished one is shown again.

    \b
    Example:
      simplepcfg demo
      simplepcfg demo --out runs/another-demo
    """
    from simplepcfg.data.readers import read_trees
    from simplepcfg.evaluation.treebank import BASELINES, Treebank
    from simplepcfg.inference.run import load

    train_or_resume(out, device, quiet)
    run = load(out, device)
    treebank = Treebank(read_trees(out / TEST), run.preprocessing)
    induced = run.evaluate(treebank, "SN-PCFG, learned")
    results_console().print(results_table([induced, *(treebank.baseline(name) for name in BASELINES)]))
    write_lines([*drawings(run, treebank), *next_commands(out)])


def train_or_resume(out: Path, device: str, quiet: bool) -> None:
    """Train into a new folder, or go on with the demo that is in it; one that is finished stays as it is."""
    from simplepcfg.runs.checkpoint import Checkpoint
    from simplepcfg.runs.config.files import load_config
    from simplepcfg.runs.device import resolve_device
    from simplepcfg.runs.run_folder import RunFolder
    from simplepcfg.training import make_reporter, train

    folder = RunFolder(out)
    if not folder.config.exists():
        folder.refuse_if_taken()
        resolve_device(device)  # refused before anything is written
        note("learning a grammar from the raw sentences of the built-in treebank; Ctrl-C is safe", quiet)
        train(with_builtin_text(load_config(CONFIG), out), out, device=device, reporter=make_reporter(quiet))
        return
    saved = folder.read_config()
    if saved.name != CONFIG or not (out / TRAIN).exists():  # the name is also that of `train demo` on other text
        raise InputError(f"{out} holds a run that is not the demo; give another folder with --out")
    with_builtin_text(saved, out)
    whole = folder.checkpoint.exists() and folder.model.exists()
    if whole and Checkpoint.load(folder.checkpoint).state.ended_by(saved.training) is not None:
        note(f"{out} holds a finished demo, shown again; to train anew: simplepcfg demo --out DIR", quiet)
    else:
        note(f"{out} holds a demo that was interrupted; going on with it", quiet)
        train(None, out, resume=True, device=device, reporter=make_reporter(quiet))


def with_builtin_text(config: "RunConfig", folder: Path) -> "RunConfig":
    """Return the configuration with files of the built-in treebank as its text; write those that the folder lacks."""
    from simplepcfg.data.synthetic_grammar import generate_treebank
    from simplepcfg.files import write_text

    for name, size in SIZES.items():
        if not (folder / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            trees = generate_treebank(*size)
            lines = (tree.to_brackets() if name == TEST else " ".join(tree.words) for tree in trees)
            write_text(folder / name, "".join(f"{line}\n" for line in lines))
    text = {"train": str(folder / TRAIN), "valid": str(folder / VALID)}
    return config.model_copy(update={"data": config.data.model_copy(update=text)})


def results_table(reports: list["EvaluationReport"]) -> "Table":
    """Return a table of F1 and perplexity: the learned grammar beside baselines and the grammar of the treebank."""
    from simplepcfg.evaluation.rendering import rich_grid

    (learned, *_) = reports
    assert learned.perplexity is not None
    perplexities = {learned.name: learned.perplexity.perplexity, "true grammar": TRUE_PERPLEXITY, **OF_WORDS}
    scores = {report.name: [f"{report.sentence_f1:.1f}", f"{report.corpus_f1:.1f}"] for report in reports}
    rows = [
        [name, *scores.get(name, ["–", "–"]), f"{perplexities[name]:.2f}" if name in perplexities else "–"]
        for name in scores | perplexities
    ]
    caption = f"{learned.sentences:,} held-out sentences, {learned.perplexity.describe()}"
    return rich_grid(["", "S-F1", "corpus F1", "perplexity"], rows, "trees against gold, and text", caption=caption)


def drawings(run: "Run", treebank: "Treebank") -> list[str]:
    """Return three short sentences with the brackets of their gold and induced trees."""
    chosen = [tree for tree in treebank.original if len(tree) in DRAWN_LENGTHS][:DRAWN]
    lines = []
    for gold, induced in zip(chosen, run.parse_spans(chosen), strict=True):
        lines += [f"gold     {nested_words(gold)}", f"induced  {nested_words(induced)}", ""]
    return lines


def next_commands(out: Path) -> list[str]:
    """Return commands that can be pasted next."""
    folder = shlex.quote(str(out))
    return [
        f"The run is in {out}. Next:",
        f"  simplepcfg evaluate {folder} right-branching oracle {folder}/test.trees",
        f'  echo "my old dog followed the cat in the garden" | simplepcfg parse {folder} --format pretty',
        f"  simplepcfg score {folder} {folder}/valid.txt",
        "  simplepcfg train sn-pcfg-128 --train YOUR.txt --out runs/yours",
    ]
