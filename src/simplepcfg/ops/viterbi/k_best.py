"""The k most probable labelled trees of each sentence, by a lazy search over the Viterbi chart. See README.md."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments, some_sentences
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.ops.viterbi import tree_backend, viterbi_chart
from simplepcfg.ops.viterbi.bounds import Floats, Integers
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.lazy_search import Edge, LazySearch, largest
from simplepcfg.ops.viterbi.pruned import Forest, PrunedSearch


def k_best(rules: SimpleRules, sentences: Sentences, k: int, *, backend: str = "auto") -> list[list[LabelledTree]]:
    """Find the k most probable labelled trees of each sentence.

    Args:
        k: the number of trees, at least 1.

    The other arguments are those of ``viterbi``. The computation is in float64.

    Returns:
        For each sentence a list of up to k trees, the most probable first. It is shorter if the sentence has fewer
        trees. Equally probable trees are ordered by their splits, then by their symbols.

    Raises:
        InputError: if k is less than 1, or as ``inside`` does.
    """
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")
    log_emissions = sentences.log_emissions.detach().double()
    arguments = check_arguments(rules.detach(), replace(sentences, log_emissions=log_emissions))
    batch, n, _, _ = arguments.sizes
    if n == 1:
        return [[] for _ in range(batch)]
    backend = tree_backend(backend, arguments)
    trees: list[list[LabelledTree] | None] = [None] * batch
    with torch.no_grad():
        if backend == "pruned":
            trees = _pruned_k_best(arguments, k)
            backend = "torch"
        left_over = [b for b, some in enumerate(trees) if some is None]
        if left_over:
            part = arguments if len(left_over) == batch else some_sentences(arguments, torch.tensor(left_over))
            for b, rest in zip(left_over, _k_best_of_chart(viterbi_chart(part, backend), k), strict=True):
                trees[b] = rest
    return [some or [] for some in trees]


def _k_best_of_chart(chart: ViterbiChart, k: int, chosen: Sequence[bool] | None = None) -> list[list[LabelledTree]]:
    """Fill a chart; return up to k trees of each sentence, or of the chosen ones."""
    best = chart.fill().tolist()
    lists: list[list[LabelledTree]] = [[] for _ in range(chart.batch)]
    for place, sentence in enumerate(chart.layout.sentences):
        if best[place] > -math.inf and (chosen is None or chosen[sentence]):
            lists[sentence] = _Search(chart, place, k).trees()
    return lists


def _pruned_k_best(arguments: InsideArguments, k: int) -> list[list[LabelledTree] | None]:
    """Find the k best trees among the nodes that matter; None where these are too many, or there may be fewer trees."""
    search = PrunedSearch(arguments)
    trees: list[list[LabelledTree] | None] = [None] * search.chart.batch
    for forest in search.forests():
        lists = _k_best_of_chart(ForestChart(arguments, forest), k, search.open.tolist())
        enough = [some[k - 1].log_probability if len(some) >= k else -math.inf for some in lists]
        for b in search.close(np.array(enough)):
            trees[b] = lists[b]
    return trees


class ForestChart(ViterbiChart):
    """A Viterbi chart whose nodes outside of a forest have the log-probability −inf."""

    def __init__(self, arguments: InsideArguments, forest: Forest) -> None:
        super().__init__(arguments)
        self.forest = forest
        for tensor in (self.best, self.children, self.emit):
            tensor.fill_(-math.inf)

    def make_rules(self) -> None:
        """Leave the logarithms of the rules to ``rule_row``, because few of them are needed."""

    def rule_row(self, b: int, rule: int, wide: bool) -> Tensor:
        arguments, states = self.arguments, self.states
        rules = arguments.left if rule < states else arguments.right
        rules = rules[self.layout.sentences[b]] if rules.dim() == 3 else rules
        row = rules[rule % states, :states] if wide else rules[rule % states, states:]
        return row.to(self.dtype).log()

    def fill(self) -> Tensor:
        """Write the values of the forest to the chart; return the best log-probabilities, in the layout's order."""
        forest, layout = self.forest, self.layout
        best = torch.from_numpy(forest.maximise())
        place = layout.order.long().argsort()
        for width, level in forest.levels.items():
            assert level.values is not None
            sides = forest.side_values[level.first_side : level.first_side + len(level.sides[0])]
            self._write(self.emit if width == 1 else self.best, place, width, level.nodes, level.values)
            self._write(self.children, place, width, level.sides, sides)
        self.top = self.best[layout.top_rows.clamp(min=0).long()] + self._root()
        return best[layout.order.long()]

    def _write(
        self, table: Tensor, place: Tensor, width: int, where: tuple[Integers, Integers, Integers], values: Floats
    ) -> None:
        """Write values at sentences, starts and columns of the table; the rule of a root has no column."""
        b, i, column = map(torch.from_numpy, where)
        inner = column < table.shape[1]
        rows = self.rows_of(place[b], i, torch.full_like(i, width))
        table[rows[inner], column[inner]] = torch.from_numpy(values)[inner]


class _Search(LazySearch):
    """The search over the packed chart of one sentence, the ``place``-th longest of its batch."""

    def __init__(self, chart: ViterbiChart, place: int, k: int) -> None:
        super().__init__(chart.states, chart.layout.lengths[place], k)
        self.chart, self.place = chart, place
        self.before = sum(chart.layout.lengths[:place])

    def best_scores(self, i: int, j: int) -> Tensor:
        return self._values([(i, j)])[0]

    def top_scores(self) -> Tensor:
        return self.chart.top[self.place]

    def edges_at(self, i: int, splits: range, j: int, symbol: int) -> list[tuple[float, Edge]]:
        # Given the parent and the split, the children are independent: the best pairs are pairs of the best.
        left, left_symbols = self._children_of([(i, split) for split in splits], symbol)
        right, right_symbols = self._children_of([(split, j) for split in splits], self.states + symbol)
        scores = left[:, :, None] + right[:, None, :]  # [splits, left children, right children]
        if self.chart.bonus is not None:
            scores = scores + self.chart.bonus[self._row(i, j) - self.chart.layout.words]
        pairs = largest(scores, self.k)
        return [(score, (splits[s], left_symbols[s][b], right_symbols[s][c])) for score, (s, b, c) in pairs]

    def _children_of(self, spans: list[tuple[int, int]], rule: int) -> tuple[Tensor, list[list[int]]]:
        """Return the scores of the k best symbols over each span as children by a row of [L; R], and the symbols."""
        is_wide = spans[0][1] - spans[0][0] > 1
        scores = self._values(spans) + self.chart.rule_row(self.place, rule, is_wide)
        scores, order = (each[:, : self.k] for each in scores.sort(descending=True, stable=True))
        return scores, (order if is_wide else order + self.states).tolist()

    def _values(self, spans: list[tuple[int, int]]) -> Tensor:
        rows = [self._row(i, j) for i, j in spans]
        return (self.chart.best if spans[0][1] - spans[0][0] > 1 else self.chart.emit)[rows]

    def _row(self, i: int, j: int) -> int:
        """Return the row of a span in the chart."""
        return self.chart.layout.first[j - i] + self.before - self.place * (j - i - 1) + i
