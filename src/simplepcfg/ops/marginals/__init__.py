"""Marginals of symbols, tags and rules of a simple PCFG, exact, from one inside and one outside pass."""

import torch
from torch import Tensor

from simplepcfg.ops.inside import inside
from simplepcfg.ops.inside.arguments import check_arguments
from simplepcfg.ops.marginals.counts import RuleCounts
from simplepcfg.ops.marginals.outside import outside_rows
from simplepcfg.ops.marginals.rows import Rows
from simplepcfg.ops.marginals.wanted_spans import flat_cells

__all__ = ["Rows", "RuleCounts", "outside_rows", "rule_counts", "symbol_marginals", "tag_marginals"]


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
    """``(log Z [B], marginals)``: the probability that a derivation has nonterminal A over span (i, j).

    Args:
        spans: ``[K, 3]``, the wanted (sentence, start, end), of width 2 or more: the marginals are then ``[K, N]``.
            Without it they are ``[B, n + 1, n + 1, N]``, which at thousands of nonterminals only short batches can
            afford; ``outside_rows`` gives them width by width.

    The rest is as in ``inside``. Summed over A this is ``span_marginals``. Not differentiable.
    """
    arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, precision)
    batch, n, nonterminals, _ = arguments.sizes
    posts = n + 1
    wanted = None if spans is None else flat_cells(spans, batch, n).to(log_emissions.device)
    rows = batch * posts * posts if wanted is None else len(wanted)
    found = arguments.log_emissions.new_zeros(rows, nonterminals)
    log_z, tables = outside_rows(arguments, backend)
    for table in tables:
        if table.width == 1:
            break
        if wanted is None:
            found[table.cells] = table.symbols().to(found.dtype)
            continue
        asked = (wanted % posts - wanted.div(posts, rounding_mode="floor") % posts == table.width).nonzero().squeeze(1)
        if len(asked):
            # Where the table lacks a span it lies beyond its sentence's end, and its marginal stays 0.
            order = table.cells.argsort()
            place = torch.searchsorted(table.cells[order], wanted[asked]).clamp_(max=len(order) - 1)
            hit = table.cells[order[place]] == wanted[asked]
            found[asked[hit]] = _products(table, order[place[hit]]).to(found.dtype)
    return log_z, found.view(batch, posts, posts, nonterminals) if wanted is None else found


def _products(table: Rows, rows: Tensor) -> Tensor:
    assert table.outside is not None
    wide = torch.promote_types(table.inside.dtype, torch.float32)
    return table.outside[rows].to(wide) * table.inside[rows].to(wide)


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
    """``(log Z [B], marginals [B, n, P])``: the probability that preterminal T stands over word i.

    The gradient of log Z by the log-emissions; each word's marginals sum to 1. With ``create_graph`` they can be
    differentiated in turn. Arguments as in ``inside``.
    """
    emissions = log_emissions if create_graph and log_emissions.requires_grad else log_emissions.detach()
    emissions = emissions if emissions.requires_grad else emissions.requires_grad_()
    rules = (root, left, right) if create_graph else (root.detach(), left.detach(), right.detach())
    with torch.enable_grad():
        log_z = inside(emissions, *rules, lengths=lengths, span_bonus=span_bonus, precision=precision, backend=backend)
        (found,) = torch.autograd.grad(log_z.sum(), emissions, create_graph=create_graph)
    return (log_z if create_graph else log_z.detach()), found


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
    """``(log Z [B], counts)``: how often each rule is expected in the derivations of the batch.

    Rule times derivative of log Z by the rule. Counts have the rules' shapes: summed over the batch where it shares
    its rules, a sentence's own where each has its own. A sentence of n words adds 1 to the root's counts and n − 1
    to the left and to the right ones. Arguments as in ``inside``.
    """
    rules = [
        rule if create_graph and rule.requires_grad else rule.detach().requires_grad_() for rule in (root, left, right)
    ]
    with torch.enable_grad():
        log_z = inside(
            log_emissions if create_graph else log_emissions.detach(),
            *rules,
            lengths=lengths,
            span_bonus=span_bonus,
            precision=precision,
            backend=backend,
        )
        if log_emissions.shape[1] == 1:  # one word has no tree, and uses no rule
            return log_z.detach(), RuleCounts(*(torch.zeros_like(rule) for rule in rules))
        slopes = torch.autograd.grad(log_z.sum(), rules, create_graph=create_graph)
    if create_graph:
        return log_z, RuleCounts(*(slope * rule for slope, rule in zip(slopes, rules, strict=True)))
    with torch.no_grad():  # in place: at thousands of nonterminals these are the largest tensors about
        return log_z.detach(), RuleCounts(*(slope.mul_(rule) for slope, rule in zip(slopes, rules, strict=True)))
