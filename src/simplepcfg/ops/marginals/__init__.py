"""Marginals of symbols and tags, and expected rule counts, of a simple PCFG."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments, check_shapes
from simplepcfg.ops.autograd_context import recordable, value_and_gradients
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside import BACKENDS, inside_of
from simplepcfg.ops.marginals.outside import outside_rows
from simplepcfg.ops.marginals.rows import Rows
from simplepcfg.ops.modes import without_modes

__all__ = ["Rows", "RuleCounts", "flat_cells", "outside_rows", "rule_counts", "symbol_marginals", "tag_marginals"]


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Expected numbers of uses of S → A, of left children A → B · and of right children A → · C."""

    root: Tensor
    left: Tensor
    right: Tensor

    @property
    def parents(self) -> Tensor:
        """The expected number of uses of each nonterminal, [N] or [B, N]."""
        return self.left.sum(-1)

    @property
    def preterminals(self) -> Tensor:
        """The expected number of uses of each preterminal, [P] or [B, P]."""
        nonterminals = self.left.shape[-2]
        return (self.left + self.right)[..., nonterminals:].sum(-2)


@without_modes
def symbol_marginals(
    rules: SimpleRules, sentences: Sentences, *, spans: Tensor | None = None, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each nonterminal over each span, given the sentence.

    Args:
        spans: ``[K, 3]`` integers, the (sentence, start, end) of the spans of interest, of width 2 or more; all spans
            by default.

    Returns:
        ``(log_z, marginals)``: the log partition function ``[B]``, and the probability that the derivation has
        nonterminal A over the span (i, j): ``[K, N]`` for the given spans, or ``[B, n + 1, n + 1, N]``, which is very
        large for thousands of nonterminals (``outside_rows`` yields the same width by width). Summed over A it is
        ``span_marginals``. Not differentiable.

    Raises:
        InputError: as ``inside`` does, or if a span is outside of its sentence.
    """
    arguments = check_arguments(rules, sentences)
    batch, n, nonterminals, _ = arguments.sizes
    posts = n + 1
    wanted = None if spans is None else flat_cells(spans, batch, n).to(arguments.log_emissions.device)
    rows = batch * posts * posts if wanted is None else len(wanted)
    marginals = arguments.log_emissions.new_zeros(rows, nonterminals)
    log_z, tables = outside_rows(arguments, resolve_backend(backend, arguments.log_emissions, BACKENDS))
    for table in tables:
        if wanted is None:
            marginals[table.cells] = table.symbols().to(marginals.dtype)
            continue
        asked = (wanted % posts - wanted.div(posts, rounding_mode="floor") % posts == table.width).nonzero().squeeze(1)
        if len(asked):
            # A span that is missing in the table is beyond the end of its sentence; its marginal stays 0.
            order = table.cells.argsort()
            place = torch.searchsorted(table.cells[order], wanted[asked]).clamp_(max=len(order) - 1)
            hit = table.cells[order[place]] == wanted[asked]
            marginals[asked[hit]] = table.symbols(order[place[hit]]).to(marginals.dtype)
    return log_z, marginals.view(batch, posts, posts, nonterminals) if wanted is None else marginals


def flat_cells(spans: Tensor, batch: int, n: int) -> Tensor:
    """Return the index of each (sentence, start, end) in a flattened [B, n + 1, n + 1], or raise InputError."""
    if spans.dim() != 2 or spans.shape[1] != 3 or spans.dtype.is_floating_point:
        raise InputError(f"spans has shape {list(spans.shape)}; it must be [K, 3] integers: sentence, start, end")
    sentence, start, end = spans.long().unbind(1)
    bad = (sentence < 0) | (sentence >= batch) | (start < 0) | (end > n) | (end - start < 2)
    if bool(bad.any()):
        k = int(bad.nonzero()[0])
        raise InputError(
            f"spans[{k}] = {spans[k].tolist()}; take sentence < {batch}, 0 <= start, start + 2 <= end <= {n}"
        )
    return (sentence * (n + 1) + start) * (n + 1) + end


@without_modes
def tag_marginals(
    rules: SimpleRules, sentences: Sentences, *, backend: str = "auto", create_graph: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each preterminal over each word, given the sentence.

    Args:
        create_graph: whether the marginals can be differentiated.

    Returns:
        ``(log_z, marginals)``: the log partition function ``[B]``, and ``[B, n, P]``, the gradient of log Z with
        respect to the log-emissions. The marginals of each word sum to 1.

    Raises:
        InputError: as ``inside`` does.
    """
    function, given = partial(inside_of, backend=backend), check_shapes(rules, sentences)
    log_z, (marginals,) = value_and_gradients(function, given, ["log_emissions"], create_graph=create_graph)
    return log_z, marginals


@without_modes
def rule_counts(
    rules: SimpleRules, sentences: Sentences, *, backend: str = "auto", create_graph: bool = False
) -> tuple[Tensor, RuleCounts]:
    """Compute the expected number of uses of each rule in the derivations of the sentences.

    Args:
        create_graph: whether the counts can be differentiated.

    Returns:
        ``(log_z, counts)``: the log partition function ``[B]``, and counts in the shapes of the rules: for rules
        without a batch dimension they are summed over the sentences. The count of a rule is its probability times the
        gradient of log Z with respect to it. A sentence of n words adds 1 to the counts of the root, and n − 1 each to
        those of left and right.

    Raises:
        InputError: as ``inside`` does.
    """
    function, given = partial(inside_of, backend=backend), check_shapes(rules, sentences)
    log_z, slopes = value_and_gradients(function, given, ["root", "left", "right"], create_graph=create_graph)
    pairs = zip(slopes, given.rules.tensors, strict=True)
    if create_graph:
        return log_z, RuleCounts(*(slope * recordable(rule) for slope, rule in pairs))
    with torch.no_grad():  # in place, because these are the largest tensors
        return log_z, RuleCounts(*(slope.mul_(rule) for slope, rule in pairs))
