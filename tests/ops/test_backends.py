"""Backends whose kernels cannot run here are refused by name, before anything is launched."""

from collections.abc import Callable

import pytest
from torch import Tensor

from random_grammars import random_case, rules_and_sentences
from simplepcfg.errors import InputError
from simplepcfg.ops import backends
from simplepcfg.ops.arguments import check_arguments
from simplepcfg.ops.inside import inside, span_marginals
from simplepcfg.ops.marginals import outside_rows
from simplepcfg.ops.prefix import prefix_states
from simplepcfg.ops.viterbi import viterbi

CASE = [tensor.detach() for tensor in random_case(2, 4, 3, 4).tensors()]
ARGUMENTS = check_arguments(*rules_and_sentences(*CASE))
QUESTIONS: dict[str, Callable[[str], object]] = {
    "inside": lambda backend: inside(*CASE, backend=backend),
    "span marginals": lambda backend: span_marginals(*CASE, backend=backend),
    "differentiable marginals": lambda backend: span_marginals(*CASE, backend=backend, create_graph=True),
    "viterbi": lambda backend: viterbi(*rules_and_sentences(*CASE), backend=backend),
    "prefixes": lambda backend: prefix_states(*rules_and_sentences(*CASE), backend=backend),
    "outside rows": lambda backend: outside_rows(ARGUMENTS, backend),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_gpu_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(InputError, match="backend 'triton' needs a CUDA GPU but the tensors are on cpu; take backend"):
        QUESTIONS[name]("triton")
    QUESTIONS[name]("auto")


def test_triton_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "has_triton", lambda: False)
    with pytest.raises(InputError, match="backend 'triton' needs Triton, which is not installed"):
        inside(*CASE, backend="triton")


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="backend 'cuda' is unknown; take one of auto, naive"):
        inside(*CASE, backend="cuda")


def test_only_where_kernels_run() -> None:
    tensor: Tensor = CASE[0]
    assert backends.resolve_backend("torch", tensor, ["torch"]) == "torch"
    assert backends.resolve_backend("auto", tensor, []) == "torch"
