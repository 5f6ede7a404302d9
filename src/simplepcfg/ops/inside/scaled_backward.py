"""The backward pass of the scaled inside algorithm: outside values, rule gradients and span marginals.

The recursion computes derivatives of log Z: each is a marginal divided by a stored probability, and therefore bounded.
The gradient of the loss with respect to log Z multiplies the results of each sentence at the end, so that the recursion
stays within the floating-point range.
"""

import math
from functools import cached_property

import torch
from torch import Tensor

from simplepcfg.ops.arguments import Needs
from simplepcfg.ops.inside.scaled_chart import ScaledChart, Square
from simplepcfg.ops.scales import drop_out_of_range

# Rows of the matrix product of the rule gradient are collected up to this number, so that few, large products are made.
PENDING_ROWS = 512
# Products for spans with marginals below this share of the floating-point precision are left out. On 23 sentences of up
# to 37 words marginals of `english` then err by at most 3.6e-6, and by 1.1e-6 if hardly any are.
NEGLIGIBLE = 1.0


class Backward:
    """One backward pass over a filled chart, which is only read.

    With ``check_range`` derivatives that overflow are set to 0 at every width. Without it, this is done only if a
    result turns out not to be finite, in a second pass.
    """

    def __init__(self, chart: ScaledChart, grad: Tensor, check_range: bool = False) -> None:
        self.chart = chart
        self.grad = grad
        self.check_range = check_range
        self.gradients = Square(torch.zeros_like(chart.square.cells))

    def run(
        self, needs: Needs, by_rules: Tensor | None, marginals: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients with respect to log_emissions and root, or None where they are not needed.

        ``by_rules`` [(B,) 2N, N + P], zeros, if given, is filled with the gradients with respect to left and right, and
        ``marginals`` [B, n + 1, n + 1] with the gradient with respect to the span bonus.
        """
        chart = self.chart
        rules = None if by_rules is None else _RuleGradient(chart, self.grad, by_rules)
        spans_only = rules is None and not needs.words and chart.shards is None
        for width in range(chart.n, 1, -1):
            if width == 2 and width < chart.n and spans_only and marginals is not None:
                self._narrowest(marginals)  # nothing below is asked for, which saves a product of n − 1 rows
                break
            alpha = self.outside(width, rules, spans_only and not chart.arguments.batched_rules)
            if marginals is not None:
                marginal = torch.linalg.vecdot(alpha, chart.beta[width])
                torch.diagonal(marginals, width, 1, 2).copy_(marginal * self.grad[:, None])
            self.add_to_children(width, alpha)
        words = None
        if needs.words or rules is not None:
            children = self.child_derivatives(1)
            if rules is not None:
                rules.add_words(children)
            if needs.words:
                words = self._words(children)
        largest = rules.largest() if rules is not None else 0.0
        overflow = not self.check_range and not (math.isfinite(largest) and _finite(words, marginals))
        if chart.shards is not None and not self.check_range:
            overflow = chart.shards.any(overflow)
        if overflow:
            # A derivative with respect to a value of 0 has overflowed and was multiplied by 0: run again with checks.
            by_rules = None if by_rules is None else by_rules.zero_()
            return Backward(chart, self.grad, check_range=True).run(needs, by_rules, marginals)
        if rules is not None:
            rules.finish(largest)
        return words, self._root() if needs.root else None

    def _narrowest(self, marginals: Tensor) -> None:
        """Compute the marginals of spans of two words by η and ζ and their derivatives, without those of β."""
        chart = self.chart
        stored = chart.square.rows(2)
        marginal = torch.linalg.vecdot(self._in_range(self.gradients.rows(2), stored), stored).sum(-1)
        ends = chart.whole_sentences(2)
        if ends is not None:
            marginal[ends, 0] = (chart.log_top[ends] > -math.inf).to(marginal.dtype)
        torch.diagonal(marginals, 2, 1, 2).copy_(marginal * self.grad[:, None])

    def outside(self, width: int, rules: "_RuleGradient | None", spans_only: bool = False) -> Tensor:
        """Compute d log Z / d β of every span of this width, as a left child, a right child and a whole sentence.

        If the marginals of spans alone are asked for, those that are too small to change one are left out.
        """
        chart = self.chart
        beta = chart.beta[width]
        if width == chart.n:
            alpha = torch.zeros_like(beta)
        elif spans_only:
            alpha = self._from_probable_children(width)
        else:
            children = self.child_derivatives(width)  # [B, spans, 2N]
            rows = chart.with_parents.get(width)
            if rows is None:
                alpha = self._own_states(children @ chart.rules)
                if rules is not None:
                    rules.add(children, beta)
            else:
                picked = children.view(-1, 2 * chart.nonterminals).index_select(0, rows)
                alpha = torch.zeros_like(beta)
                alpha.view(-1, chart.nonterminals).index_copy_(0, rows, self._own_states(picked @ chart.rules))
                if rules is not None:
                    sentences = torch.div(rows, chart.n - width + 1, rounding_mode="floor")
                    rules.add_rows(picked, beta.view(-1, chart.nonterminals).index_select(0, rows), sentences)
        ends = chart.whole_sentences(width)
        if ends is not None:
            alpha[ends, 0] = self._of_tops[ends]
        return self._in_range(alpha, beta)

    def _from_probable_children(self, width: int) -> Tensor:
        """Compute ``outside`` of spans as left and right children whose marginals are not negligible.

        η and ζ and their derivatives tell these marginals before the products with the rules.
        """
        chart = self.chart
        alpha, posts = torch.zeros_like(chart.beta[width]), chart.n + 1
        children = self.gradients.cells.view(-1, chart.nonterminals)
        marginals = torch.linalg.vecdot(self.gradients.rows(width), chart.square.rows(width))  # [B, spans, 2]
        negligible = marginals < NEGLIGIBLE * torch.finfo(chart.dtype).eps
        for side, rules in enumerate(chart.rules.chunk(2)):
            sentences, starts = negligible[..., side].logical_not().nonzero(as_tuple=True)
            ends = starts + width
            first, second = (starts, ends) if side == 0 else (ends, starts)
            picked = children.index_select(0, (sentences * posts + first) * posts + second)
            picked *= chart.scales[width][sentences, starts, side, None]
            alpha.view(-1, chart.nonterminals).index_add_(0, sentences * (posts - width) + starts, picked @ rules)
        return alpha

    def _own_states(self, alpha: Tensor) -> Tensor:
        """Return the derivatives by this process's states, summed over the parents of all processes."""
        return alpha if self.chart.shards is None else self.chart.shards.own_states(alpha)

    def _words(self, children: Tensor) -> Tensor:
        """Compute the gradient of the log-emissions from the derivatives [B, n, 2N] of the words."""
        chart = self.chart
        parts = []
        for part in chart.gathered_parts(chart.batch, chart.words.shape[-1], chart.n):
            rules = chart.word_rules[part] if chart.arguments.batched_rules else chart.word_rules
            by_words = self._own_states(children[part] @ rules)
            emitted = chart.own_words[part]
            parts.append(self._in_range(by_words, emitted).mul_(emitted).mul_(self.grad[part, None, None]))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @cached_property
    def _of_tops(self) -> Tensor:
        """The derivatives with respect to β of whole sentences, [B, N]."""
        return self._over_z(self.chart.arguments.root.expand(self.chart.batch, -1))

    def _over_z(self, value: Tensor) -> Tensor:
        """Compute value / (root · β) for each sentence, or 0 if the sentence has probability 0."""
        log_top = self.chart.log_top[:, None]
        impossible = log_top == -math.inf
        scaled = (value.double().log() - log_top.masked_fill(impossible, 0.0)).exp() * 2.0**-self.chart.range.beta_peak
        return scaled.masked_fill(impossible, 0.0).to(self.chart.dtype)

    def _root(self) -> Tensor:
        chart = self.chart
        root = chart.arguments.root
        by_root = self._over_z(chart.top) * 2.0**chart.range.beta_peak
        by_root = drop_out_of_range(by_root, root.expand_as(by_root), chart.range) * self.grad[:, None]
        return by_root if root.dim() == 2 else by_root.sum(0)

    def child_derivatives(self, width: int) -> Tensor:
        """Compute the derivative of log Z with respect to [L | R] β of every span of this width: [B, spans, 2N]."""
        chart = self.chart
        both = chart.empty(chart.batch, chart.n - width + 1, 2, chart.nonterminals)
        torch.mul(self.gradients.rows(width), chart.scales[width][..., None], out=both)
        return self._in_range(both, chart.square.rows(width)).flatten(-2)

    def add_to_children(self, width: int, alpha: Tensor) -> None:
        """Add the contribution of each span of this width to the derivatives of the two children of each split."""
        chart = self.chart
        eta, zeta = chart.splits[width]
        to_eta, to_zeta = self.gradients.children(width)
        factors = chart.factors[width]
        reached = alpha.any(-1)
        for p in chart.chunks(width):  # the parent's derivative times the sibling
            if not bool(reached[p].any()):
                continue
            weights = alpha[p].unsqueeze(2) * factors[p].unsqueeze(3)
            to_eta[p].addcmul_(weights, zeta[p])
            to_zeta[p].addcmul_(weights, eta[p])
        if width in chart.log_space_spans:
            where, exponents = chart.log_space_spans[width]
            bonus = chart.bonus(width)
            if bonus is not None:
                alpha = alpha * bonus[1][..., None]
            logs = alpha[where].double().log2_()[:, None] + exponents[..., None]
            limit = torch.finfo(chart.dtype).max
            to_eta[where] += torch.exp2(logs + zeta[where].double().log2_()).clamp_(max=limit).to(chart.dtype)
            to_zeta[where] += torch.exp2(logs + eta[where].double().log2_()).clamp_(max=limit).to(chart.dtype)

    def _in_range(self, derivative: Tensor, value: Tensor) -> Tensor:
        if not self.check_range or float(derivative.amax()) < self.chart.range.huge:
            return derivative
        return drop_out_of_range(derivative, value, self.chart.range)


class _RuleGradient:
    """The gradient of the rules: collects rows of β and of derivatives, and multiplies them in few, large products."""

    def __init__(self, chart: ScaledChart, grad: Tensor, both: Tensor) -> None:
        self.chart = chart
        # If the loss weights all sentences equally, the result is scaled once instead of every row.
        self.common = float(grad[0]) if bool((grad == grad[0]).all()) else None
        self.grad = grad
        self.both = both
        self.total, self.words = both[..., : chart.child_states], both[..., chart.child_states :]
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.pending_rows = 0

    def add(self, children: Tensor, beta: Tensor) -> None:
        """Add the derivatives [B, spans, 2N] and β [B, spans, N] of one width."""
        if self.common is None:
            children = children * self.grad[:, None, None]
        if self.chart.arguments.batched_rules:
            self.total.baddbmm_(children.transpose(1, 2), self.chart.all_states(beta))
        else:
            self._collect(children.flatten(0, 1), beta.flatten(0, 1))

    def add_rows(self, children: Tensor, beta: Tensor, sentences: Tensor) -> None:
        """Add rows [rows, 2N] and [rows, N] that belong to the given sentences [rows]."""
        self._collect(children * self.grad[sentences, None] if self.common is None else children, beta)

    def add_words(self, children: Tensor) -> None:
        """Add the derivatives [B, n, 2N] of the words."""
        if self.common is None:
            children = children * self.grad[:, None, None]
        if self.chart.arguments.batched_rules:
            torch.bmm(children.transpose(1, 2), self.chart.words, out=self.words)
        else:
            torch.mm(children.flatten(0, 1).T, self.chart.words.flatten(0, 1), out=self.words)

    def _collect(self, children: Tensor, beta: Tensor) -> None:
        self.pending.append((children, beta))
        self.pending_rows += children.shape[0]
        if self.pending_rows >= PENDING_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self.pending:
            children, beta = (torch.cat(parts) for parts in zip(*self.pending, strict=True))
            self.pending.clear()
            self.pending_rows = 0
            for part in self.chart.gathered_parts(len(beta), self.chart.child_states):
                self.total.addmm_(children[part].T, self.chart.all_states(beta[part]))

    def largest(self) -> float:
        """Return the largest magnitude in the gradient, NaN if it contains one."""
        self._flush()
        low, high = torch.aminmax(self.both)
        return float(torch.maximum(-low, high))

    def finish(self, largest: float) -> None:
        """Remove overflows from the gradient and multiply it by the gradient of the loss."""
        if not largest < self.chart.range.huge:
            self.both.copy_(drop_out_of_range(self.both, self.chart.all_rules, self.chart.range))
        if self.common is not None and self.common != 1.0:
            self.both.mul_(self.common)


def _finite(*tensors: Tensor | None) -> bool:
    """Return whether all tensors are finite, which is true if their sums are."""
    return all(tensor is None or math.isfinite(float(tensor.sum(dtype=torch.float64))) for tensor in tensors)
