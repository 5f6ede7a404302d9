"""Trains and evaluates the rows of a table, each row and seed once, from wherever an earlier call stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals

from simplepcfg.data.readers import read_trees
from simplepcfg.errors import InputError, NumericalError, ResourceError
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.files import Record, sha256_of_file
from simplepcfg.inference.run import load
from simplepcfg.plans.jobs import Job, find_jobs, find_texts, job_config, refuse_own_keys
from simplepcfg.plans.lines import REPORT_NUMBERS, result_table
from simplepcfg.plans.result_table import ResultTable
from simplepcfg.plans.state import Key, ReproductionFolder
from simplepcfg.plans.tables import PaperTable, paper_table
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training.reporting.progress import Reporter
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import train
from simplepcfg.version import __version__, current_commit


def reproduce(
    table_name: str,
    data: str | Path,
    out: str | Path,
    *,
    rows: Sequence[str] | None = None,
    seeds: int = 4,
    settings: Sequence[str] = (),
    device: str = "auto",
    make_reporter: Callable[[], Reporter] = Reporter,
    remark: Callable[[str], None] = lambda text: None,
) -> ResultTable:
    """Train and evaluate every row of a table that can be computed here, `seeds` times, and return the table.

    Rows and seeds that have a result are not done again, and an interrupted training goes on from its checkpoint.
    The test file is read once for each finished run. A row that fails for want of memory, or of numbers, is named
    and the others go on; the first such error is raised at the end.
    """
    if seeds < 1:
        raise InputError(f"seeds = {seeds}; train at least one run a row")
    table = paper_table(table_name)
    chosen = table.choose(rows)
    texts = find_texts(table, Path(data))
    jobs = list(find_jobs(chosen, texts, seeds))
    refuse_own_keys(settings)
    # All of them before the first is trained: a misspelt key must not show after a day.
    configs = {job.key: job_config(job, settings) for job in jobs if job.row.config is not None}
    folder = ReproductionFolder(Path(out), (table.metric, *REPORT_NUMBERS))
    tests = {text.language: sha256_of_file(text.test) for text in texts}
    folder.open(table.name, Path(data), settings, tests)
    for text in texts:
        if text.language and text.language.lower() not in table.languages:
            remark(f"{text.language}: the paper has figures of {', '.join(table.languages)} alone")
    failures: dict[Key, NumericalError | ResourceError] = {}

    def write_table() -> ResultTable:
        written = result_table(table, list(tests), folder.read_results(), failures, seeds, chosen, settings)
        written.write(folder.path)
        return written

    def work(job: Job) -> Record:
        config = configs.get(job.key)
        if config is None:
            return _evaluate_baseline(job)
        place = folder.run(*job.key)
        begun = RunFolder(place).config.exists()
        remark(f"{job.title}: {'going on with' if begun else 'training into'} {place}")
        try:
            train(None if begun else config, place, resume=begun, device=device, reporter=make_reporter())
        except Interrupted as error:
            write_table()
            message = f"stopped by {Signals(error.signal_number).name} in {job.title}; the same command goes on"
            raise Interrupted(message, error.signal_number) from None
        run = load(place, device)
        return run.evaluate(job.text.test, job.title).to_dict() | {"best": run.best}

    with RunFolder(folder.path).locked():
        for row in chosen:
            if row.configuration and row.config is None:
                remark(f"{row.name}: the configuration {row.configuration} is not installed; the row is left out")
        for job in jobs:
            if job.key in folder.read_results():
                continue
            try:
                report = work(job)
            except (NumericalError, ResourceError) as error:  # kept for the end
                failures[job.key] = error
                remark(f"{job.title}: {error}")
            else:
                folder.append(_record(job, table, configs.get(job.key), report))
                write_table()
    written = write_table()
    for key, failure in failures.items():
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise type(failure)(f"{' '.join(map(str, filter(None, key)))}: {failure}{more}; the same command tries again")
    return written


def _evaluate_baseline(job: Job) -> Record:
    preprocessing = load_config(overrides=job.text.settings, environment={}).data.preprocessing
    treebank = Treebank(read_trees(job.text.test), preprocessing, str(job.text.test))
    return treebank.baseline(job.row.baseline or "").to_dict()


def _record(job: Job, table: PaperTable, config: RunConfig | None, report: Record) -> Record:
    return {
        "table": table.name,
        "row": job.row.name,
        "language": job.text.language,
        "seed": job.seed,
        "config": job.row.config,
        "model": None if config is None else config.model_dump(mode="json")["model"],
        "test": str(job.text.test),
        "test_sha256": sha256_of_file(job.text.test),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "simplepcfg": __version__,
        "commit": current_commit(),
        "report": report,
    }
