"""Rules and sentences: the two values that operations take, and the checks that they fit each other."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autograd_context import requires_graph
from simplepcfg.ops.products import check_precision

# Rules may be this far below 0, so that finite differences can be taken at a rule of probability 0.
LARGEST_NEGATIVE_RULE = 1e-3


@dataclass(frozen=True, slots=True)
class Sentences:
    """A batch of sentences, as a caller gives them."""

    log_emissions: Tensor  # [B, n, P]: log emit[T, w_i] of every preterminal at every position; -inf is allowed
    lengths: Tensor | None = None  # [B]; None if every sentence has n words
    span_bonus: Tensor | None = None  # [B, n + 1, n + 1]: log-weights of spans, -inf where a span is forbidden

    @classmethod
    def of(
        cls, log_emissions: Tensor, lengths: Tensor | Sequence[int] | None, span_bonus: Tensor | None = None
    ) -> "Sentences":
        """Return the sentences, with lengths that were given as a list in a tensor."""
        if lengths is not None:
            lengths = lengths_tensor(lengths, log_emissions.shape[0])
        return cls(log_emissions, lengths, span_bonus)

    def last_posts(self) -> tuple[Tensor, Tensor]:
        """Return indices of each sentence and of its end in a tensor [B, n + 1, ...]: [B] each, on the device."""
        batch, n, _ = self.log_emissions.shape
        device = self.log_emissions.device
        ends = torch.full((batch,), n, device=device) if self.lengths is None else self.lengths.to(device)
        return torch.arange(batch, device=device), ends


@dataclass(frozen=True, slots=True)
class SimpleRules:
    """Rules of a simple PCFG, as a caller gives them: A → B C has the probability left[A, B] · right[A, C]."""

    root: Tensor  # [N] or [B, N]
    left: Tensor  # [N, N + P] or [B, N, N + P]; nonterminals first, then preterminals
    right: Tensor  # as left
    precision: str | None = None  # of matrix products with the rules: "bf16", "tf32" or "fp32", the default

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Root, left and right."""
        return self.root, self.left, self.right

    def detach(self) -> "SimpleRules":
        """Return the rules without gradients."""
        return SimpleRules(self.root.detach(), self.left.detach(), self.right.detach(), self.precision)


@dataclass(frozen=True, slots=True)
class InsideArguments:
    """Rules and sentences that have been checked together, in one floating-point dtype: what every backend receives.

    ``lengths`` is None if every sentence has n words.
    """

    log_emissions: Tensor  # [B, n, P]
    root: Tensor  # [N] or [B, N]
    left: Tensor  # [N, N + P] or [B, N, N + P]
    right: Tensor
    lengths: Tensor | None  # [B] int64 on the CPU, where the host can read them without waiting for the GPU
    span_bonus: Tensor | None  # [B, n + 1, n + 1]
    precision: str | None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, n, N, P."""
        batch, n, preterminals = self.log_emissions.shape
        return batch, n, self.root.shape[-1], preterminals

    @property
    def lengths_on_device(self) -> Tensor | None:
        """``lengths`` on the device of the other tensors."""
        return None if self.lengths is None else self.lengths.to(self.log_emissions.device)

    @property
    def rules(self) -> SimpleRules:
        """The rules alone."""
        return SimpleRules(self.root, self.left, self.right, self.precision)

    @property
    def batched_rules(self) -> bool:
        """Whether the rules have a batch dimension."""
        return self.left.dim() == 3


class Needs(NamedTuple):
    """The gradients that a backward pass computes."""

    words: bool  # of the log-emissions
    root: bool
    rules: bool  # of left and right


def needs_gradient(arguments: InsideArguments) -> bool:
    """Return whether results are to be differentiated with respect to some argument."""
    tensors = (arguments.log_emissions, arguments.root, arguments.left, arguments.right, arguments.span_bonus)
    return requires_graph(*tensors)


def some_sentences(arguments: InsideArguments, indices: Tensor) -> InsideArguments:
    """Return the arguments of some sentences of the batch."""
    own_rules = arguments.batched_rules
    return replace(
        arguments,
        log_emissions=arguments.log_emissions[indices],
        root=arguments.root[indices] if arguments.root.dim() == 2 else arguments.root,
        left=arguments.left[indices] if own_rules else arguments.left,
        right=arguments.right[indices] if own_rules else arguments.right,
        lengths=None if arguments.lengths is None else arguments.lengths[indices],
        span_bonus=None if arguments.span_bonus is None else arguments.span_bonus[indices],
    )


def by_length(arguments: InsideArguments) -> Iterator[tuple[list[int], InsideArguments]]:
    """Yield the sentences of each length, with their indices, without padding."""
    if arguments.lengths is None:
        yield list(range(arguments.sizes[0])), arguments
        return
    for length in arguments.lengths.unique().tolist():
        indices = (arguments.lengths == length).nonzero()[:, 0]
        some = some_sentences(arguments, indices)
        bonus = None if some.span_bonus is None else some.span_bonus[:, : length + 1, : length + 1]
        emissions = some.log_emissions[:, :length]
        yield indices.tolist(), replace(some, log_emissions=emissions, span_bonus=bonus, lengths=None)


def check_arguments(rules: SimpleRules, sentences: Sentences) -> InsideArguments:
    """Check shapes, dtypes and values, and convert to one floating-point dtype; InputError names what is wrong."""
    return check_values(check_shapes(rules, sentences))


def check_shapes(rules: SimpleRules, sentences: Sentences) -> InsideArguments:
    """Check shapes and dtypes and convert to one floating-point dtype, without reading a value.

    ``lengths`` of the result may be on any device and are not checked yet, which ``check_values`` does.
    """
    log_emissions, lengths, span_bonus = sentences.log_emissions, sentences.lengths, sentences.span_bonus
    root, left, right = rules.tensors
    batch, n, preterminals = check_word_shape(log_emissions)
    nonterminals = root.shape[-1] if root.dim() else 0
    sides = (nonterminals, nonterminals + preterminals)
    for name, tensor, tail in (("root", root, (nonterminals,)), ("left", left, sides), ("right", right, sides)):
        check_rule_shape(name, tensor, tail, batch, f"B = {batch}, N = {nonterminals}, P = {preterminals}")
    if left.dim() != right.dim():
        raise InputError("left and right must both have a batch dimension, or neither")
    dtype = torch.promote_types(log_emissions.dtype, torch.float32)
    check_precision(rules.precision)
    if span_bonus is not None and tuple(span_bonus.shape) != (batch, n + 1, n + 1):
        raise InputError(f"span_bonus has shape {_shape(span_bonus)}; it must be {[batch, n + 1, n + 1]}")
    return InsideArguments(
        log_emissions.to(dtype),
        root.to(dtype),
        left if left.dtype == right.dtype and _keeps_dtype(left, dtype) else left.to(dtype),
        right if left.dtype == right.dtype and _keeps_dtype(right, dtype) else right.to(dtype),
        None if lengths is None else lengths_tensor(lengths, batch),
        None if span_bonus is None else span_bonus.to(dtype),
        rules.precision,
    )


def check_word_shape(log_emissions: Tensor, columns: str = "P") -> tuple[int, int, int]:
    """Return the shape of log-emissions; InputError unless they are floating-point [B, n, P], none of them 0."""
    if not log_emissions.is_floating_point():
        raise InputError(f"log_emissions has dtype {log_emissions.dtype}; it must be a floating-point tensor")
    if log_emissions.dim() != 3 or 0 in log_emissions.shape:
        shape = _shape(log_emissions)
        raise InputError(f"log_emissions has shape {shape}; it must be [B, n, {columns}], none of them 0")
    batch, n, count = log_emissions.shape
    return batch, n, count


def check_rule_shape(name: str, tensor: Tensor, tail: tuple[int, ...], batch: int, sizes: str) -> None:
    """Raise InputError unless rules have the shape ``tail``, or [B, *tail]; ``sizes`` explains what is expected."""
    if 0 in tail or tuple(tensor.shape) not in (tail, (batch, *tail)):
        raise InputError(f"{name} has shape {_shape(tensor)}; with {sizes} it must be {list(tail)} or {[batch, *tail]}")


def check_values(arguments: InsideArguments) -> InsideArguments:
    """Check the values of arguments whose shapes are right, and move the lengths to the CPU.

    Values on a GPU are not checked, because the host would have to wait for it. InputError names what is wrong.
    """
    batch, n, _, _ = arguments.sizes
    for name, tensor in (("root", arguments.root), ("left", arguments.left), ("right", arguments.right)):
        check_probabilities(name, tensor)
    lengths = check_lengths(arguments.lengths, batch, n)
    check_bonus(arguments.span_bonus, batch, n, arguments.log_emissions.dtype)
    return arguments if lengths is arguments.lengths else replace(arguments, lengths=lengths)


def _keeps_dtype(rules: Tensor, dtype: torch.dtype) -> bool:
    """Return whether rules need no conversion; bfloat16 rules on a GPU are read by the matrix products as they are."""
    return rules.dtype == dtype or (rules.is_cuda and rules.dtype == torch.bfloat16)


def float64_of_sentence(rules: Tensor, b: int, dims: int) -> Tensor:
    """Return the rules of sentence ``b`` in float64; without a batch dimension rules have ``dims`` dimensions."""
    return (rules[b] if rules.dim() > dims else rules).double()


def check_tensors(log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor) -> None:
    """Raise InputError for what is no tensor, or for log-emissions that seem to be probabilities.

    These are numbers from 0 to 1, not all 0. Other positive numbers may be log-weights. Tensors on a GPU are not read.
    """
    for name, tensor in (("log_emissions", log_emissions), ("root", root), ("left", left), ("right", right)):
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name} is a {type(tensor).__name__}; give a tensor, torch.as_tensor({name})")
    values = None if torch.compiler.is_compiling() else _host_values(log_emissions)
    if values is not None and values.size and values.min() >= 0 and 0 < values.max() <= 1:
        raise InputError(
            f"log_emissions holds {values.min():.6g} to {values.max():.6g}, which seem to be probabilities; "
            "give log_emissions.log()"
        )


def check_probabilities(name: str, tensor: Tensor) -> None:
    """Raise InputError if rules are negative, which means that log-probabilities were given.

    Tensors on a GPU are not checked, because the host would have to wait for it. NaN is accepted: training detects it
    and skips the step.
    """
    values = _host_values(tensor)
    if values is not None and (least := float(values.min())) < -LARGEST_NEGATIVE_RULE:
        raise InputError(
            f"{name} holds {least:.6g}; rules are probabilities, not log-probabilities or logits: give {name}.exp() or "
            f"{name}.softmax(-1)"
        )


def _host_values(tensor: Tensor) -> NDArray[np.floating] | None:
    """Return the values of a floating-point tensor on a CPU as NumPy's array, or None where none can be read."""
    if tensor.device.type != "cpu" or not tensor.is_floating_point():
        return None
    try:
        # NumPy's view of the same memory keeps the check out of autograd and of tracing.
        return tensor.detach().numpy() if tensor.dtype != torch.bfloat16 else tensor.detach().float().numpy()
    except RuntimeError:  # within a transformation such as torch.func.vmap there are no values
        return None


def check_lengths(lengths: Tensor | Sequence[int] | None, batch: int, n: int) -> Tensor | None:
    """Return the lengths as int64 on the CPU, or None if every sentence has n words; InputError if they are wrong."""
    if lengths is None:
        return None
    lengths = lengths_tensor(lengths, batch).to("cpu", torch.int64)
    values = lengths.tolist()
    for index, value in enumerate(values):
        if value > n:
            raise InputError(f"lengths[{index}] = {value} exceeds n = {n}; crop it or give more positions")
        if value < 1:
            raise InputError(f"lengths[{index}] = {value}; a sentence has at least one word")
    return None if all(value == n for value in values) else lengths


def check_prefix_lengths(lengths: Tensor | Sequence[int] | None, batch: int, n: int) -> Tensor:
    """Return the lengths of prefixes, which may be 0, as int64 on the CPU; InputError if they are wrong."""
    if lengths is None:
        return torch.full((batch,), n)
    lengths = lengths_tensor(lengths, batch).to("cpu", torch.int64)
    if not bool(((lengths >= 0) & (lengths <= n)).all()):
        raise InputError(f"lengths = {lengths.tolist()}; give {batch} lengths of 0 to n = {n}")
    return lengths


def check_bonus(span_bonus: Tensor | None, batch: int, n: int, dtype: torch.dtype) -> Tensor | None:
    """Return the bonus in ``dtype``; InputError if its shape is wrong or, on a CPU, if it contains NaN or inf.

    Values on a GPU are not checked, because the host would have to wait for it.
    """
    if span_bonus is None:
        return None
    if tuple(span_bonus.shape) != (batch, n + 1, n + 1):
        raise InputError(f"span_bonus has shape {_shape(span_bonus)}; it must be {[batch, n + 1, n + 1]}")
    if span_bonus.device.type == "cpu" and not bool((span_bonus < torch.inf).all()):
        place = (~(span_bonus < torch.inf)).nonzero()[0].tolist()
        raise InputError(
            f"span_bonus{place} = {float(span_bonus[tuple(place)])}; give a finite log-weight, or -inf to forbid it"
        )
    return span_bonus.to(dtype)


def lengths_tensor(lengths: Tensor | Sequence[int], batch: int) -> Tensor:
    """Return the lengths as a tensor of integers, [B], on any device; InputError if dtype or number is wrong."""
    if not isinstance(lengths, Tensor):
        try:
            lengths = torch.tensor([operator.index(value) for value in lengths], dtype=torch.int64)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise InputError(f"lengths is {lengths!r}; give a tensor or a list of whole numbers") from None
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise InputError(f"lengths has dtype {lengths.dtype}; lengths are whole numbers")
    if tuple(lengths.shape) != (batch,):
        raise InputError(f"lengths has shape {_shape(lengths)}; it must be [{batch}], one length a sentence")
    return lengths


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
