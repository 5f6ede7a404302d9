"""Span marginals by inside and outside passes over few spans and few symbols; README.md says which.

A coarse grammar guesses which spans matter, and only those get rows of the chart, and which of their symbols do; the
others have the rules of their clusters. The outside pass hands marginals
themselves down the tree, from parent symbols to the children of their splits. Few symbols have one that matters: at a
span of a trained grammar of 1,024 nonterminals about a dozen reach 1e-5. A span's marginal is divided among those that
do, so that only spans without any of them are lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, linear

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments, some_sentences
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.inside import BACKENDS
from simplepcfg.ops.inside.scaled_chart import CACHE_BYTES
from simplepcfg.ops.marginals.coarse import Guess, coarse_guess
from simplepcfg.ops.products import chosen_products
from simplepcfg.ops.scales import DEAD, range_of, shift_to_peak
from simplepcfg.ops.transposed_rules import stacked_rules, transposed_nonterminals

# Marginals of one symbol over one span, or of one parent symbol of a span, are dropped below this.
THRESHOLD = 1e-5
# In sentences of more words than SHORT, spans are dropped whose marginal under the coarse grammar is below the first of
# these. Symbols whose marginal, by inside values and coarse outside values, is below the second have mean rules.
SPAN_THRESHOLD = 1e-3
SYMBOL_THRESHOLD = 1e-5
SHORT = 15
MOST_SYMBOLS = 0.5  # share of the symbols of spans of one width above which the exact form takes less time
LEAST_NONTERMINALS = 256


def pruned_span_marginals(
    rules: SimpleRules,
    sentences: Sentences,
    *,
    backend: str = "auto",
    threshold: float = THRESHOLD,
    span_threshold: float = SPAN_THRESHOLD,
    symbol_threshold: float = SYMBOL_THRESHOLD,
) -> Tensor | None:
    """Compute span marginals of sentences, [B, n + 1, n + 1], as far as spans and symbols above thresholds go.

    Returns None where that does not apply or does not pay: on a GPU, for rules with a batch dimension or fewer than
    ``LEAST_NONTERMINALS``, for other backends than "torch", if a value may have left the floating-point range, if the
    spans of a sentence leave no tree, and if most symbols are probable, as those of an untrained grammar are.

    Raises:
        InputError: as ``inside`` does.
    """
    with torch.inference_mode():
        arguments = check_arguments(rules, sentences)
        batch, n, _, _ = arguments.sizes
        spans = arguments.log_emissions.new_zeros(batch, n + 1, n + 1)
        charts = pruned_charts(arguments, backend, span_threshold, symbol_threshold)
        for some, chart in charts or []:
            marginals = None if chart is None else chart.span_marginals(threshold)
            if marginals is None:
                return None
            spans[some] = marginals
        return None if charts is None else spans


def pruned_charts(
    arguments: InsideArguments, backend: str, span_threshold: float, symbol_threshold: float
) -> list[tuple[Tensor, PrunedChart | None]] | None:
    """Return filled charts of short and of longer sentences, each with the indices of these; None where none pays.

    A chart is None if a value left the floating-point range, or if a sentence lost all of its trees.
    """
    backend = resolve_backend(backend, arguments.log_emissions, BACKENDS)
    batch, n, nonterminals, _ = arguments.sizes
    on_cpu = backend == "torch" and arguments.log_emissions.device.type == "cpu"
    if not on_cpu or n == 1 or nonterminals < LEAST_NONTERMINALS or arguments.batched_rules:
        return None
    lengths = torch.full((batch,), n) if arguments.lengths is None else arguments.lengths
    short = lengths <= SHORT
    charts = []
    for some, prunes in ((short.nonzero()[:, 0], False), ((~short).nonzero()[:, 0], span_threshold > 0)):
        if len(some):
            given = arguments if len(some) == batch else some_sentences(arguments, some)
            charts.append((some, _filled(given, lengths[some], span_threshold if prunes else 0.0, symbol_threshold)))
    return charts


def _filled(
    arguments: InsideArguments, lengths: Tensor, span_threshold: float, symbol_threshold: float
) -> PrunedChart | None:
    ends = torch.arange(arguments.sizes[1] + 1)
    kept = every = (ends <= lengths[:, None])[:, None] & (ends[:, None] < ends)  # [B, n + 1, n + 1]
    guess = None
    if span_threshold > 0:
        guess = coarse_guess(arguments)
        kept = every & ((guess.spans >= span_threshold) | (ends - ends[:, None] == 1))
        kept[torch.arange(len(lengths)), 0, lengths] = True
    chart = PrunedChart(arguments, lengths, kept, guess, symbol_threshold)
    if not chart.fill() or (guess is not None and bool((~chart.has_tree & (lengths > 1)).any())):
        return None
    return chart


@dataclass(slots=True)
class Width:
    """The rows of spans of one width, and the splits whose children have rows, in the order of their parents."""

    width: int
    rows: slice
    b: Tensor  # [spans]
    i: Tensor
    parent: Tensor  # [splits]: number of the span
    left: Tensor  # [splits]: row of the left child
    right: Tensor
    first: Tensor  # [spans + 1]: number of the first split of each span
    factors: Tensor  # [splits]: β = Σ factor · η ⊙ ζ


class PrunedChart:
    """A chart of rows, one for each span that is kept; all sentences have the same rules."""

    def __init__(
        self,
        arguments: InsideArguments,
        lengths: Tensor,
        kept: Tensor,
        guess: Guess | None = None,
        symbol_threshold: float = 0.0,
    ) -> None:
        """Number the spans of ``kept`` [B, n + 1, n + 1] by width. Without a guess all of their symbols are kept."""
        self.arguments, self.lengths = arguments, lengths
        self.guess, self.symbol_threshold = guess, symbol_threshold
        self.n, self.nonterminals = arguments.sizes[1:3]
        self.dtype = arguments.log_emissions.dtype
        self.range = range_of(self.dtype)
        b, i, j = kept.nonzero().unbind(1)
        order = (j - i).argsort(stable=True)
        b, i, j = b[order], i[order], j[order]
        self.row_of = torch.full(kept.shape, -1)
        self.row_of[b, i, j] = torch.arange(len(b))
        self.b, self.i = b, i
        counts = torch.bincount(j - i, minlength=self.n + 1).cumsum(0).tolist()
        self.rows = {width: slice(*counts[width - 1 : width + 1]) for width in range(1, self.n + 1)}
        self.words = counts[1]
        self.children = torch.empty(len(b), 2, self.nonterminals, dtype=self.dtype)  # η and ζ
        self.exponents = torch.empty(len(b), 2, dtype=self.dtype)
        self.scales = torch.empty(len(b), 2, dtype=self.dtype)  # stored row = scale · matrix product
        self.beta = torch.empty(len(b) - self.words, self.nonterminals, dtype=self.dtype)
        self.beta_exponents = torch.empty(len(b) - self.words, dtype=self.dtype)
        self.widths: dict[int, Width] = {}
        self.has_tree = torch.zeros(len(lengths), dtype=torch.bool)  # of sentences of two words or more

    def fill(self) -> bool:
        """Run the inside pass; return whether all values are in range."""
        left, right = self.arguments.left, self.arguments.right
        transposed = transposed_nonterminals(left, right)
        rows = self.rows[1]
        emissions = self.arguments.log_emissions[self.b[rows], self.i[rows]]
        best = emissions.amax(-1, keepdim=True).clamp(min=-1e30)
        emissions = (emissions - best).exp_().mul_(2.0**self.range.peak)
        exponents = torch.full((self.words,), -float(self.range.peak), dtype=self.dtype)
        words = [linear(emissions, side[:, self.nonterminals :]) for side in (left, right)]
        self._store(rows, torch.cat(words, -1), exponents)
        for width in range(2, self.n + 1):
            level = self.widths[width] = self._splits(width)
            beta, exponents = self._sum_splits(level)
            if bool(((beta.amax(-1) < self.range.safe) & (exponents > DEAD / 2)).any()):
                return False
            self.beta_exponents[level.rows.start - self.words : level.rows.stop - self.words] = exponents
            if width < self.n:
                self._store(level.rows, self._multiply(level, beta, transposed), exponents)
        self.guess = None  # which is no longer needed, and large
        longer = (self.lengths > 1).nonzero()[:, 0]
        tops = self.beta[self.row_of[longer, 0, self.lengths[longer]] - self.words]
        root = self.arguments.root.expand(len(self.lengths), -1)[longer]
        self.has_tree[longer] = ((tops > 0) & (root > 0)).any(-1)
        return True

    def _multiply(self, level: Width, beta: Tensor, rules: Tensor) -> Tensor:
        """Compute η and ζ of the spans of one width, [spans, 2N]; improbable symbols have their cluster's mean rules.

        Those of whole sentences, which nothing reads, need not be right.
        """
        if self.guess is None or self.symbol_threshold == 0:
            return beta @ rules
        estimates = self.guess.symbols(level.b, level.i, level.i + level.width, beta)
        chosen = estimates >= self.symbol_threshold
        chosen &= (self.lengths[level.b] != level.width)[:, None]
        rest = beta.masked_fill(chosen, 0.0) @ self.guess.membership
        return chosen_products(beta, chosen, rules).addmm_(rest, self.guess.mean_rules)

    def _splits(self, width: int) -> Width:
        """Find the splits of the spans of one width whose children have rows."""
        rows = self.rows[width]
        b, i = self.b[rows], self.i[rows]
        posts = self.n + 1
        start = (b * posts + i) * posts + i
        k = torch.arange(1, width)
        table = self.row_of.view(-1)
        left = table[start[:, None] + k]
        right = table[start[:, None] + width + k * posts]
        parent, split = ((left >= 0) & (right >= 0)).nonzero().unbind(1)
        first = torch.zeros(len(b) + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(parent, minlength=len(b)), 0, out=first[1:])
        return Width(width, rows, b, i, parent, left[parent, split], right[parent, split], first, torch.empty(0))

    def _sum_splits(self, level: Width) -> tuple[Tensor, Tensor]:
        """Compute β of spans, Σ over splits of η ⊙ ζ, and its exponents: [spans, N] and [spans]."""
        beta = self.beta[level.rows.start - self.words : level.rows.stop - self.words]
        splits = self.exponents[level.left, 0] + self.exponents[level.right, 1]
        exponents = splits.new_full((len(beta),), DEAD).scatter_reduce_(0, level.parent, splits, "amax")
        level.factors = (splits - exponents[level.parent]).exp2_()
        most = max(1, CACHE_BYTES // (self.nonterminals * self.dtype.itemsize))
        eta, zeta = self.children.unbind(1)
        bounds, start = level.first.tolist(), 0
        while start < len(beta):
            stop = start + 1
            while stop < len(beta) and bounds[stop + 1] - bounds[start] <= most:
                stop += 1
            some = slice(bounds[start], bounds[stop])
            products = eta.index_select(0, level.left[some]).mul_(zeta.index_select(0, level.right[some]))
            every = torch.arange(len(products))
            offsets = level.first[start:stop] - bounds[start]
            beta[start:stop] = embedding_bag(
                every, products, offsets, mode="sum", per_sample_weights=level.factors[some]
            )
            start = stop
        if self.arguments.span_bonus is not None:
            bonus = self.arguments.span_bonus[level.b, level.i, level.i + level.width].double() / math.log(2)
            whole, forbidden = bonus.floor(), bonus == -math.inf
            fraction = torch.exp2(bonus - whole).masked_fill_(forbidden, 0.0).to(self.dtype)
            beta *= fraction[:, None]
            level.factors *= fraction[level.parent]
            exponents += whole.masked_fill(forbidden, DEAD).to(self.dtype)
        return beta, exponents

    def _store(self, rows: slice, products: Tensor, exponents: Tensor) -> None:
        """Write the rows of η and ζ, each scaled so that its maximum is near 2^peak."""
        both = products.view(-1, 2, self.nonterminals)
        maxima = both.amax(-1)
        shifts = shift_to_peak(maxima, self.range, limit_shift=True)
        self.scales[rows] = shifts.exp2()
        torch.mul(both, self.scales[rows][..., None], out=self.children[rows])
        self.exponents[rows] = (exponents[:, None] - shifts).masked_fill_(maxima == 0, DEAD)

    def span_marginals(self, threshold: float) -> Tensor | None:
        """Run the outside pass; return the marginals of spans of two or more words.

        Returns None if one is not finite, or if the symbols above the threshold are no longer few.
        """
        spans = torch.zeros(*self.row_of.shape, dtype=self.dtype)
        # By row and side: the marginal of each parent symbol that has the span as its left (or right) child.
        by_parent = torch.zeros_like(self.children)
        rules = stacked_rules(self.arguments.left, self.arguments.right)
        for width in range(self.n, 1, -1):
            level = self.widths.pop(width)
            here = by_parent[level.rows].sum((1, 2))
            whole = self.lengths[level.b] == width
            here[whole] = self.has_tree[level.b[whole]].to(here.dtype)
            spans[level.b, level.i, level.i + width] = here
            # The children of two words have no spans to hand anything down to.
            if width > 2 and not self._hand_down(level, here, by_parent, rules, threshold):
                return None
        return spans if bool(spans.isfinite().all()) else None

    def _hand_down(self, level: Width, here: Tensor, by_parent: Tensor, rules: Tensor, threshold: float) -> bool:
        """Add the marginals of the symbols of spans, which have the marginals ``here``, to those of their children.

        Returns False where the symbols above a threshold are many.
        """
        beta = self.beta[level.rows.start - self.words : level.rows.stop - self.words]
        span = (here > threshold).nonzero()[:, 0]
        marginals = self._symbols(level, span, beta[span], by_parent, rules, threshold)
        node, symbol = (marginals > threshold).nonzero(as_tuple=True)
        if threshold > 0 and len(node) > MOST_SYMBOLS * marginals.numel():
            return False
        shares = marginals[node, symbol]
        shares *= (here[span] / torch.zeros_like(here[span]).index_add_(0, node, shares))[node]
        span = span[node]
        # Every node with every split of its span.
        first = level.first[span]
        counts = level.first[span + 1] - first
        node = torch.repeat_interleave(torch.arange(len(span)), counts)
        split = torch.arange(len(node)) + (first - (counts.cumsum(0) - counts))[node]
        symbol, shares = symbol[node], (shares / beta[span, symbol])[node]
        left = (2 * self.nonterminals) * level.left[split] + symbol
        right = (2 * self.nonterminals) * level.right[split] + self.nonterminals + symbol
        stored = self.children.view(-1)
        weights = stored.take(left).mul_(stored.take(right)).mul_(level.factors[split]).mul_(shares)
        by_parent.view(-1).index_add_(0, left, weights).index_add_(0, right, weights)
        return True

    def _symbols(
        self, level: Width, span: Tensor, marginals: Tensor, by_parent: Tensor, rules: Tensor, threshold: float
    ) -> Tensor:
        """Compute the marginals of the nonterminals of some spans, given β of these: [spans, N]."""
        if level.width < self.n:
            handed = by_parent[level.rows][span].flatten(1)
            place, parent = (handed > threshold).nonzero(as_tuple=True)
            where = level.rows.start + span[place], parent // self.nonterminals
            stored = self.children[*where, parent % self.nonterminals]
            weights = handed[place, parent] / stored * self.scales[where]
            starts = torch.searchsorted(place, torch.arange(len(span)))
            marginals *= embedding_bag(parent, rules, starts, mode="sum", per_sample_weights=weights)
        top = (self.lengths[level.b[span]] == level.width).nonzero()[:, 0]
        if len(top):
            logs = self.beta[level.rows.start - self.words + span[top]].double().log_()
            logs += self.arguments.root.expand(len(self.lengths), -1)[level.b[span[top]]].double().log()
            marginals[top] = logs.softmax(-1).to(self.dtype)
        return marginals
