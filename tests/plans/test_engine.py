"""Jobs of a plan are done once each; what fails is recorded, and the others go on."""

import pytest

from simplepcfg.errors import InputError, NumericalError, ResourceError
from simplepcfg.plans.engine import Failure, do_jobs


def test_each_job_is_done_once_and_recorded_before_the_next() -> None:
    results: dict[str, int] = {"b": 0}
    seen: list[list[str]] = []

    def work(job: str) -> int:
        seen.append(list(results))
        return len(job)

    do_jobs(["a", "b", "cc"], results.__contains__, work, results.__setitem__)
    assert results == {"b": 0, "a": 1, "cc": 2}
    assert seen == [["b"], ["b", "a"]]


@pytest.mark.parametrize("failure", [NumericalError("not finite"), ResourceError("no memory")])
def test_a_failure_is_a_result(failure: Failure) -> None:
    results: dict[str, int | Failure] = {}

    def work(job: str) -> int:
        if job == "fails":
            raise failure
        return 1

    do_jobs(["fails", "works"], results.__contains__, work, results.__setitem__)
    assert results == {"fails": failure, "works": 1}


def test_any_other_error_ends_everything() -> None:
    done: list[str] = []

    def work(job: str) -> int:
        raise InputError("a mistake in the plan")

    with pytest.raises(InputError, match="mistake"):
        do_jobs(["a", "b"], done.__contains__, work, lambda job, result: done.append(job))
    assert done == []
