"""Marginals of symbols and tags, and expected rule counts, of a simple PCFG."""

import torch
from torch import Tensor

from simplepcfg.ops.arguments import check_arguments, check_shapes
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside import BACKENDS, inside
from simplepcfg.ops.marginals.counts import RuleCounts
from simplepcfg.ops.marginals.outside import outside_rows
from simplepcfg.ops.marginals.rows import Rows
from simplepcfg.ops.marginals.wanted_spans import flat_cells
from simplepcfg.ops.recording import recordable, recording

__all__ = ["Rows", "RuleCounts", "outside_rows", "rule_counts", "symbol_marginals", "tag_marginals"]


@without_autocast
def symbol_marginals(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    spans: Tensor | None = None,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each nonterminal over each span, given the sentence.

    Args:
        spans: ``[K, 3]`` integers, the (sentence, start, end) of the spans of interest, of width 2 or more; all
            spans by default.

    The other arguments are those of ``inside``.

    Returns:
        ``(log_z, marginals)``: the log partition function ``[B]``, and the probability that the derivation has
        nonterminal A over the span (i, j): ``[K, N]`` for the given spans, or ``[B, n + 1, n + 1, N]``, which is very
        large for thousands of nonterminals (``outside_rows`` yields the same width by width). Summed over A it is
        ``span_marginals``. Not differentiable.

    Raises:
        InputError: as ``inside`` does, or if a span is outside of its sentence.
    """
    arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, precision)
    batch, n, nonterminals, _ = arguments.sizes
    posts = n + 1
    wanted = None if spans is None else flat_cells(spans, batch, n).to(log_emissions.device)
    rows = batch * posts * posts if wanted is None else len(wanted)
    found = arguments.log_emissions.new_zeros(rows, nonterminals)
    log_z, tables = outside_rows(arguments, resolve_backend(backend, log_emissions, BACKENDS))
    for table in tables:
        if table.width == 1:
            break
        if wanted is None:
            found[table.cells] = table.symbols().to(found.dtype)
            continue
        asked = (wanted % posts - wanted.div(posts, rounding_mode="floor") % posts == table.width).nonzero().squeeze(1)
        if len(asked):
            # A span that is missing in the table is beyond the end of its sentence; its marginal stays 0.
            order = table.cells.argsort()
            place = torch.searchsorted(table.cells[order], wanted[asked]).clamp_(max=len(order) - 1)
            hit = table.cells[order[place]] == wanted[asked]
            found[asked[hit]] = _products(table, order[place[hit]]).to(found.dtype)
    return log_z, found.view(batch, posts, posts, nonterminals) if wanted is None else found


def _products(table: Rows, rows: Tensor) -> Tensor:
    assert table.outside is not None
    wide = torch.promote_types(table.inside.dtype, torch.float32)
    return table.outside[rows].to(wide) * table.inside[rows].to(wide)


@without_autocast
def tag_marginals(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
    create_graph: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute the marginal probability of each preterminal over each word, given the sentence.

    Args:
        create_graph: whether the marginals can be differentiated.

    The other arguments are those of ``inside``.

    Returns:
        ``(log_z, marginals)``: the log partition function ``[B]``, and ``[B, n, P]``, the gradient of log Z with
        respect to the log-emissions. The marginals of each word sum to 1.

    Raises:
        InputError: as ``inside`` does.
    """
    with recording():
        given = check_shapes(log_emissions, root, left, right, lengths, span_bonus, precision)
        emissions = recordable(given.log_emissions)
        emissions = emissions if create_graph and emissions.requires_grad else emissions.detach().requires_grad_()
        rules = [recordable(rule) for rule in (given.root, given.left, given.right)]
        log_z = inside(
            emissions,
            *(rules if create_graph else [rule.detach() for rule in rules]),
            lengths=recordable(given.lengths),
            span_bonus=recordable(given.span_bonus),
            precision=precision,
            backend=backend,
        )
        (found,) = torch.autograd.grad(log_z.sum(), emissions, create_graph=create_graph)
    return (log_z if create_graph else log_z.detach()), found


@without_autocast
def rule_counts(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
    create_graph: bool = False,
) -> tuple[Tensor, RuleCounts]:
    """Compute the expected number of uses of each rule in the derivations of the sentences.

    Args:
        create_graph: whether the counts can be differentiated.

    The other arguments are those of ``inside``.

    Returns:
        ``(log_z, counts)``: the log partition function ``[B]``, and counts in the shapes of the rules: for rules
        without a batch dimension they are summed over the sentences. The count of a rule is its probability times the
        gradient of log Z with respect to it. A sentence of n words adds 1 to the counts of the root, and n − 1 each to
        those of left and right.

    Raises:
        InputError: as ``inside`` does.
    """
    with recording():
        given = check_shapes(log_emissions, root, left, right, lengths, span_bonus, precision)
        rules = [
            rule if create_graph and rule.requires_grad else rule.detach().requires_grad_()
            for rule in map(recordable, (given.root, given.left, given.right))
        ]
        emissions = recordable(given.log_emissions)
        log_z = inside(
            emissions if create_graph else emissions.detach(),
            *rules,
            lengths=recordable(given.lengths),
            span_bonus=recordable(given.span_bonus),
            precision=precision,
            backend=backend,
        )
        if given.sizes[1] == 1:  # a sentence of one word has no tree
            return log_z.detach(), RuleCounts(*(torch.zeros_like(rule) for rule in rules))
        slopes = torch.autograd.grad(log_z.sum(), rules, create_graph=create_graph)
    if create_graph:
        return log_z, RuleCounts(*(slope * rule for slope, rule in zip(slopes, rules, strict=True)))
    with torch.no_grad():  # in place, because these are the largest tensors
        return log_z.detach(), RuleCounts(*(slope.mul_(rule) for slope, rule in zip(slopes, rules, strict=True)))
