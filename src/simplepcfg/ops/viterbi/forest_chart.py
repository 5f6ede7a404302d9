"""The Viterbi chart of the nodes of a ``Forest``, in the layout that the search for the k best trees reads."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.viterbi.bounds import Floats, Integers
from simplepcfg.ops.viterbi.chart import ViterbiChart
from simplepcfg.ops.viterbi.pruned import Forest


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
