"""Marginals that are derivatives: in inference mode, of one word, and in the precision of the computation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from random_grammars import rules_and_sentences
from simplepcfg.errors import InputError
from simplepcfg.ops.dense import check_dense_arguments
from simplepcfg.ops.dense.marginals import dense_span_marginals
from simplepcfg.ops.forward import check_arguments, state_marginals
from simplepcfg.ops.inside import span_marginals
from simplepcfg.ops.marginals import rule_counts, symbol_marginals, tag_marginals

B, WORDS, N, P = 3, 5, 4, 6
LENGTHS = torch.tensor([5, 1, 3])


def rules(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).softmax(-1)


def simple(n: int = WORDS) -> tuple[Tensor, ...]:
    return rules(B, n, P).log(), rules(N), rules(N, N + P), rules(N, N + P).flip(0)


def dense(n: int = WORDS) -> tuple[Tensor, ...]:
    return rules(B, n, P).log(), rules(N), rules(N, (N + P) ** 2).view(N, N + P, N + P)


def chain(n: int = WORDS) -> tuple[Tensor, ...]:
    return rules(B, n, P).log(), rules(P), rules(P, P)


def tags_of(*given: Tensor, lengths: Tensor | None = None, create_graph: bool) -> Tensor:
    return tag_marginals(*rules_and_sentences(*given, lengths=lengths), create_graph=create_graph)[1]


def left_counts_of(*given: Tensor, lengths: Tensor | None = None, create_graph: bool) -> Tensor:
    return rule_counts(*rules_and_sentences(*given, lengths=lengths), create_graph=create_graph)[1].left


QUESTIONS: dict[str, tuple[Callable[..., tuple[Tensor, ...]], Callable[..., Tensor]]] = {
    "span_marginals": (simple, lambda *given, **options: span_marginals(*given, **options)[1]),
    "naive span_marginals": (simple, lambda *given, **options: span_marginals(*given, backend="naive", **options)[1]),
    "tag_marginals": (simple, tags_of),
    "rule_counts": (simple, left_counts_of),
    "dense_span_marginals": (
        dense,
        lambda *given, lengths=None, **options: dense_span_marginals(check_dense_arguments(*given, lengths), **options)[
            1
        ],
    ),
    "state_marginals": (
        chain,
        lambda *given, lengths=None, **options: state_marginals(check_arguments(*given, lengths), **options)[1],
    ),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_inference_mode(name: str, create_graph: bool) -> None:
    make, ask = QUESTIONS[name]
    expected = ask(*make(), lengths=LENGTHS, create_graph=create_graph)
    with torch.inference_mode():
        tensors, lengths = make(), LENGTHS.clone()
        assert torch.equal(ask(*tensors, lengths=lengths, create_graph=create_graph), expected)
    assert torch.equal(ask(*tensors, lengths=lengths, create_graph=create_graph), expected)


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("name", ["span_marginals", "naive span_marginals", "dense_span_marginals"])
def test_one_word_has_no_spans(name: str, needs: bool) -> None:
    make, ask = QUESTIONS[name]
    tensors = [tensor.requires_grad_(needs) for tensor in make(1)]
    assert torch.equal(ask(*tensors, create_graph=True), torch.zeros(B, 2, 2))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", QUESTIONS)
def test_low_precision_is_computed_and_returned_in_float32(name: str, kind: torch.dtype) -> None:
    make, ask = QUESTIONS[name]
    tensors = [tensor.to(kind) for tensor in make()]
    for create_graph in (False, True):
        found = ask(*tensors, create_graph=create_graph)
        assert found.dtype == torch.float32
        assert torch.equal(found, ask(*(tensor.float() for tensor in tensors), create_graph=create_graph))


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_one_sentence_without_a_batch_dimension(name: str, create_graph: bool) -> None:
    make, ask = QUESTIONS[name]
    log_emissions, *others = make()
    with pytest.raises(InputError, match=r"log_emissions has shape \[5, 6\]"):
        ask(log_emissions[0], *others, create_graph=create_graph)


def test_unknown_backend_of_symbol_marginals() -> None:
    with pytest.raises(InputError, match="backend 'tritn' is unknown"):
        symbol_marginals(*rules_and_sentences(*simple()), backend="tritn")
