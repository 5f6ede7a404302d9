"""Trains every experiment of a plan that has not been done yet, and records what came of it.

    python experiments/run.py PLAN.toml --train FILE --valid FILE [--test FILE] [--only NAME]… [--seed N]… [--seconds S]

A plan names a configuration, settings that all of its experiments share, and the experiments: each changes some
settings and says beforehand what is expected (README.md lists the keys). A row a seed is appended to PLAN.csv, also for
one that left the range of numbers or the memory; a mistake in a plan ends everything before it begins. An experiment
that was interrupted, by --seconds or otherwise, goes on from its checkpoint under --out. One that comes `after` another
begins with the weights of that one's run, which must be there still. Test text is looked at only where an experiment
says `final = true`. `python experiments/render.py` writes the table.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from plans import Experiment, Plan, read_plan, read_rows
from simplepcfg import load
from simplepcfg.data.readers import read_sentences, read_trees, sniff
from simplepcfg.errors import InputError, NumericalError, ResourceError, SimplePCFGError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, Reporter, train
from simplepcfg.training.reporting.progress import EpochReport, StepReport

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from benchmarking.report import append_rows, environment

Row = dict[str, float | str | None]  # a value for each of COLUMNS
COLUMNS = (
    "minutes",
    "epochs",
    "best_epoch",
    "train_perplexity",
    "valid_perplexity",
    "test_perplexity",
    "test_sentence_f1",
    "largest_gradient_norm",
    "skipped_steps",
    "nonterminals_used",
    "preterminals_used",
    "failure",
)


class Deadline(Reporter):
    """Prints epochs, and asks training to stop, all saved, when the time is over."""

    def __init__(self, name: str, until: float) -> None:
        self._name, self._until = name, until

    def step(self, report: StepReport) -> None:
        """See Reporter."""
        if time.monotonic() > self._until:
            self._until = float("inf")
            os.kill(os.getpid(), signal.SIGTERM)

    def epoch(self, report: EpochReport) -> None:
        """See Reporter."""
        print(
            f"{self._name} epoch {report.epoch}: train {report.train_perplexity:.2f}, valid "
            f"{report.valid.perplexity:.2f}, {report.seconds:.0f} s",
            flush=True,
        )


def main() -> None:
    """Run what is left of a plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path, help="a TOML file as those beside this program")
    parser.add_argument("--train", type=Path, required=True, help="training text, one sentence a line, or trees")
    parser.add_argument("--valid", type=Path, required=True, help="validation text, likewise")
    parser.add_argument("--test", type=Path, help="text or trees, for experiments that are final")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this experiment; can be repeated")
    parser.add_argument("--seed", action="append", default=[], type=int, help="this seed of each; can be repeated")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long, everything saved")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/experiments"), help="where runs are kept; runs/experiments by default"
    )
    parser.add_argument("--csv", type=Path, help="instead of the file beside the plan")
    parser.add_argument("--commit", help="what was run, where the tree has no history")
    arguments = parser.parse_args()
    try:
        run_plan(arguments)
    except (SimplePCFGError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


@dataclass(frozen=True, slots=True)
class Training:
    """One experiment with one seed."""

    experiment: Experiment
    seed: int
    config: RunConfig
    folder: RunFolder

    @property
    def key(self) -> tuple[str, str]:
        """Return the cells by which a row of the table is known."""
        return self.experiment.name, str(self.seed)


def run_plan(arguments: argparse.Namespace) -> None:
    """Train and record experiment by experiment, until the time is over."""
    if not arguments.seconds >= 0:
        raise InputError(f"--seconds {arguments.seconds:g}: give a time of 0 or more")
    plan, until = read_plan(arguments.plan), time.monotonic() + arguments.seconds
    table = arguments.csv or arguments.plan.with_suffix(".csv")
    chosen = plan.chosen(arguments.only) if arguments.only else plan.experiments
    asked = [(each, seed) for each in chosen for seed in each.seeds if seed in (arguments.seed or each.seeds)]
    if not asked:
        raise InputError(f"no experiment has a seed of {arguments.seed}; see the plan's seeds, [0] where it has none")
    done = recorded(table)
    left = [planned(plan, each, seed, arguments) for each, seed in asked if (each.name, str(seed)) not in done]
    if not left:
        print(f"nothing left to do: every row that was asked for is in {table}")

    for job in left:
        if job.key in recorded(table):  # by another process that does the same plan
            continue
        try:
            result = run_one(plan, job, arguments, until)
        except Interrupted:
            return
        except (NumericalError, ResourceError) as error:
            result = dict.fromkeys(COLUMNS) | {"failure": f"{type(error).__name__}: {error}"}
        shown = (f"{key} {value}" for key, value in result.items() if value is not None)
        print(f"{job.folder.path.name}: " + ", ".join(shown), flush=True)
        where = environment(resolve_device(), arguments.commit)
        where["threads"] = job.config.training.threads or where["threads"]
        append_rows(table, [{"experiment": job.experiment.name, "seed": job.seed} | result | where])


def planned(plan: Plan, experiment: Experiment, seed: int, arguments: argparse.Namespace) -> Training:
    """Return one training with its configuration and its folder; InputError for a mistake in the plan."""
    runs, settings = arguments.out / arguments.plan.stem, [*plan.settings, *experiment.settings, f"seed={seed}"]
    if experiment.after:
        settings.append(f"training.start_from={runs / run_name(plan.named(experiment.after), seed)}")
    source = experiment.config or plan.config
    if source.endswith(".toml"):  # named from where the plan lies
        source = str(arguments.plan.parent / source)
    config = load_config(source, settings, environment={})
    return Training(experiment, seed, config, RunFolder(runs / run_name(experiment, seed)))


def run_one(plan: Plan, job: Training, arguments: argparse.Namespace, until: float) -> Row:
    """Train, or go on, and measure what came of it. Raises Interrupted if its time is over."""
    folder = job.folder
    try:
        result = train(
            job.config,
            folder.path,
            resume=folder.config.exists(),
            reporter=Deadline(folder.path.name, until),
            train_text=first_lines(arguments.train, plan.train_sentences),
            valid_text=first_lines(arguments.valid, plan.valid_sentences),
        )
    except Interrupted:
        print(f"{folder.path.name}: stopped, to be gone on with", flush=True)
        raise
    lines = [json.loads(line) for line in folder.metrics.read_text("utf-8").splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    row: Row = dict.fromkeys(COLUMNS) | {
        "minutes": round(result.seconds / 60, 2),
        "epochs": result.epochs,
        "best_epoch": result.best.epoch,
        "train_perplexity": rounded(epochs[-1]["train_perplexity"]),
        "valid_perplexity": rounded(result.best.perplexity),
        # A run of fewer steps than training.log_every has no line of steps.
        "largest_gradient_norm": rounded(
            max((line["gradient_norm"] for line in lines if "gradient_norm" in line), default=None)
        ),
        "skipped_steps": result.skipped_steps,
    }
    run = load(folder.path)
    if run.shares_rules and hasattr(run.grammar, "left"):
        usage = run.symbols(first_lines(arguments.valid, 300), top=1)
        row["nonterminals_used"] = rounded(usage.nonterminal_usage.perplexity)
        row["preterminals_used"] = rounded(usage.preterminal_usage.perplexity)
    if job.experiment.final and arguments.test:
        gold = sniff(arguments.test) == "trees"
        report = run.evaluate(list(read_trees(arguments.test)) if gold else first_lines(arguments.test, 0))
        row["test_perplexity"] = rounded(report.perplexity.perplexity)
        row["test_sentence_f1"] = rounded(report.sentence_f1)
    return row


def run_name(experiment: Experiment, seed: int) -> str:
    """Return the name of the folder of an experiment with one seed."""
    return experiment.name if len(experiment.seeds) == 1 else f"{experiment.name}-{seed}"


def recorded(table: Path) -> set[tuple[str, str]]:
    """Return the experiments and seeds that have a row, failures included."""
    return {(row["experiment"], row["seed"]) for row in read_rows(table)}


def first_lines(path: Path, count: int) -> list[str]:
    """Return the first so many sentences of a text or of trees, or all if 0."""
    trees = sniff(path) == "trees"
    sentences = (tree.words for tree in read_trees(path)) if trees else read_sentences(path)
    return [" ".join(words) for words in islice(sentences, count or None)]


def rounded(number: float | None) -> float | None:
    """Return a number with two decimals; None stays None."""
    return None if number is None else round(number, 2)


if __name__ == "__main__":
    main()
