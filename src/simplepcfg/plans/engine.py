"""The engine of plans: jobs are done once each, in order, and what fails does not stop the others."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from simplepcfg.errors import NumericalError, ResourceError

Job = TypeVar("Job")
Result = TypeVar("Result")
Failure = NumericalError | ResourceError


def do_jobs(
    jobs: Iterable[Job],
    is_done: Callable[[Job], bool],
    work: Callable[[Job], Result],
    record: Callable[[Job, Result | Failure], None],
) -> None:
    """Do each job that is not done yet, and record its result before the next one begins.

    An error of numbers or of memory is such a result, too; any other error ends everything.
    """
    for job in jobs:
        if is_done(job):
            continue
        try:
            result: Result | Failure = work(job)
        except (NumericalError, ResourceError) as error:
            result = error
        record(job, result)
