"""Trains and evaluates the rows of a table, each row and seed once, from wherever an earlier call stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Any

from simplepcfg.benchmarking.report import current_commit
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import read_trees
from simplepcfg.errors import InputError, NumericalError, ResourceError, SimplePCFGError
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.run import load
from simplepcfg.plans.jobs import (
    Job,
    find_jobs,
    find_predictions,
    find_texts,
    job_config,
    refuse_own_keys,
    refuse_unknown_settings,
    sha256,
    text_preprocessing,
)
from simplepcfg.plans.lines import REPORT_NUMBERS, Line, table_lines
from simplepcfg.plans.rendering import write_tables
from simplepcfg.plans.state import ReproductionFolder
from simplepcfg.plans.tables import PaperTable, paper_table
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import train
from simplepcfg.version import __version__


def reproduce(
    table_name: str,
    data: str | Path,
    out: str | Path,
    *,
    rows: Sequence[str] | None = None,
    seeds: int = 4,
    settings: Sequence[str] = (),
    predictions: Sequence[str] = (),
    device: str = "auto",
    make_reporter: Callable[[], Reporter] = Reporter,
    remark: Callable[[str], None] = lambda text: None,
) -> list[Line]:
    """Train and evaluate every row of a table that can be computed here, `seeds` times, and return the table's lines.

    Rows and seeds that have a result are not done again, and an interrupted training goes on from its checkpoint.
    The test file is read once for each finished run. A row that fails for want of memory, or of numbers, is named
    and the others go on; the first such error is raised at the end. `predictions` are bracketed trees of the test
    file's sentences, "NAME=FILE", scored as a row of the same table.
    """
    if seeds < 1:
        raise InputError(f"seeds = {seeds}; train at least one run a row")
    table = paper_table(table_name)
    chosen = table.choose(rows)
    texts = find_texts(table, Path(data))
    jobs = [*find_predictions(table, texts, predictions), *find_jobs(chosen, texts, seeds)]
    refuse_own_keys(settings)
    # All of them before the first is trained: a misspelt key must not show after a day.
    configs = {job.key: job_config(job, table, settings) for job in jobs if job.row.config is not None}
    if settings and not configs:
        refuse_unknown_settings(table, texts[0], settings)
    folder = ReproductionFolder(Path(out), (table.metric, *REPORT_NUMBERS))
    folder.open(table.name, Path(data), settings)
    languages = [text.language for text in texts]
    tests = {text.language: (text.test, sha256(text.test)) for text in texts}
    folder.refuse_other_tests(tests)
    folder.refuse_other_predictions(
        {job.key: (job.predictions, sha256(job.predictions)) for job in jobs if job.predictions}
    )
    folder.refuse_other_configurations(configs)
    for text in texts:
        if text.language and text.language.lower() not in table.languages:
            remark(f"{text.language}: the paper has figures of {', '.join(table.languages)} alone")
    failures: dict[tuple[str, str, int], SimplePCFGError] = {}

    def lines() -> list[Line]:
        return table_lines(table, languages, folder.read_results(), failures, seeds, chosen, settings)

    with RunFolder(folder.path).locked():
        for row in chosen:
            if row.configuration and row.config is None:
                remark(f"{row.name}: the configuration {row.configuration} is not installed; the row is left out")
        for job in jobs:
            if job.key in folder.read_results():
                continue
            try:
                report = _evaluated(
                    job,
                    configs.get(job.key),
                    text_preprocessing(job.text, table),
                    folder,
                    device,
                    make_reporter,
                    remark,
                )
            except Interrupted as error:
                write_tables(folder, table, lines(), settings)
                message = f"stopped by {Signals(error.signal_number).name} in {job.title}; the same command goes on"
                raise Interrupted(message, error.signal_number) from None
            except (NumericalError, ResourceError) as error:
                failures[job.key] = error
                remark(f"{job.title}: {error}")
                continue
            record = _record(job, table, configs.get(job.key), report)
            if record["test_sha256"] != tests[job.text.language][1]:
                raise InputError(f"{job.text.test}: changed while {job.title} was trained; restore it and start again")
            folder.append(record)
            write_tables(folder, table, lines(), settings)
    found = lines()
    write_tables(folder, table, found, settings)
    if failures:
        key, failed = next(iter(failures.items()))
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise type(failed)(f"{' '.join(map(str, filter(None, key)))}: {failed}{more}; the same command tries again")
    return found


def _evaluated(
    job: Job,
    config: RunConfig | None,
    preprocessing: Preprocessing,
    folder: ReproductionFolder,
    device: str,
    make_reporter: Callable[[], Reporter],
    remark: Callable[[str], None],
) -> dict[str, Any]:
    """Train the rest of a run and evaluate it once on the test file; a baseline is only evaluated."""
    if config is None:
        treebank = Treebank(read_trees(job.text.test), preprocessing, str(job.text.test))
        if job.predictions is not None:
            scored, different = treebank.predictions(str(job.predictions), list(read_trees(job.predictions)))
            if different:
                remark(
                    f"{job.predictions}: {different} trees have other words than {job.text.test}; is it the same text?"
                )
            return scored.to_dict()
        return treebank.baseline(job.row.baseline or "").to_dict()
    place = folder.run(*job.key)
    begun = RunFolder(place).config.exists()
    remark(f"{job.title}: {'going on with' if begun else 'training into'} {place}")
    train(None if begun else config, place, resume=begun, device=device, reporter=make_reporter())
    run = load(place, device)
    report = run.evaluate(job.text.test, job.title).to_dict()
    return report | {"best": run.best}


def _record(job: Job, table: PaperTable, config: RunConfig | None, report: dict[str, Any]) -> dict[str, Any]:
    predicted = {}
    if job.predictions is not None:
        predicted = {"predictions": str(job.predictions), "predictions_sha256": sha256(job.predictions)}
    return {
        "table": table.name,
        "row": job.row.name,
        "language": job.text.language,
        "seed": job.seed,
        "config": job.row.config,
        "model": None if config is None else config.model_dump(mode="json")["model"],
        "test": str(job.text.test),
        "test_sha256": sha256(job.text.test),
        **predicted,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "simplepcfg": __version__,
        "commit": current_commit(),
        "report": report,
    }
