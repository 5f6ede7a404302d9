"""Markers that need something this machine may not have are deselected by default, and the summary says so."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest

# Tests start hundreds of processes that import the package: let them keep its bytecode, whatever the shell says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

OPT_IN = ("gpu", "slow", "browser", "peer")
# Started first where several processes share the files, so that none is left with a long one at the end.
LONGEST = (
    "training/test_distributed.py",
    "ops/test_stress.py",
    "training/test_distillation.py",
    "ops/test_viterbi.py",
    "ops/test_operators.py",
    "training/test_teachers.py",
    "ops/test_inside.py",
    "training/test_kill.py",
    "training/test_resume.py",
    "ops/test_graphs.py",
    "training/test_checkpoint_safety.py",
    "cli/test_answers.py",
    "training/test_seeds.py",
    "cli/test_cli_distil.py",
    "cli/test_bad_input.py",
    "ops/test_graphs_in_place.py",
    "cli/test_faults.py",
    "cli/test_start.py",
    "test_notebooks.py",
    "test_docs.py",
    "cli/test_cli_failures.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare a process that runs tests; one that only hands them out to others starts sooner without torch."""
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return
    import torch

    from fast_interpreter import speed_up

    if not torch.cuda.is_available():
        # Before anything imports triton: its kernels then run on the CPU, slowly, so that they are tested here too.
        os.environ.setdefault("TRITON_INTERPRET", "1")
        speed_up()
    if hasattr(config, "workerinput"):
        # Several processes share the cores already; what tests start themselves inherits this.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torch.set_num_threads(1)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what is left out also where several processes run and only they count it."""
    if config.option.markexpr:
        return None
    return "left out by default: " + ", ".join(f"-m {name}" for name in OPT_IN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order files; without -m, leave opt-in tests out as deselected: in the closing line, never a silent skip."""
    places = {f"tests/{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
    if config.option.markexpr:
        return
    left_out = {item: None for item in items if any(item.get_closest_marker(name) for name in OPT_IN)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no search for garbage needs to look at them."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let everything be freed in the usual way."""
    gc.unfreeze()


@pytest.fixture(scope="module")
def nothing_to_collect() -> None:
    """Objects of earlier tests are set aside, so that a collection looks at those of this module alone."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and lose much on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
