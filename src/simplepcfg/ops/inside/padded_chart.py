"""Charts that a CUDA graph can fill for every batch of one shape, and which calls gain from a graph.

In ``PackedChart`` the number of rows depends on the lengths, and so do the launches. In ``PaddedChart`` every sentence
has the rows of n words. Words beyond its end have emissions of 0, so that spans over them are dead and have no
gradient, and the row of the whole sentence is read from a table. One graph then serves all lengths.
"""

from dataclasses import replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.inside.layout import padded_tables
from simplepcfg.ops.inside.packed_chart import PackedChart

MOST_FLOPS, MOST_FLOPS_BF16 = 1.2e12, 6e12  # of a call that is bound by its launches
# Padding is worth its additional work if that takes a GPU less time than the host needs to launch the kernels one by
# one, some milliseconds. With bfloat16 operands GPUs multiply at least five times as fast.
MOST_WASTED_FLOPS = 2e11
MOST_WASTED_FLOPS_BF16 = 1e12
MOST_WASTED_BYTES = 5e9


def is_worth_padding(arguments: InsideArguments) -> bool:
    """Return whether to process a batch of mixed lengths as if all sentences had n words."""
    assert arguments.lengths is not None
    batch, n, nonterminals, preterminals = arguments.sizes
    if arguments.span_bonus is not None:  # its values beyond the end of a sentence may be anything
        return False
    lengths = arguments.lengths.tolist()
    words = batch * n - sum(lengths)
    spans = (batch * n * (n - 1) - sum(length * (length - 1) for length in lengths)) // 2
    splits = (batch * n * (n * n - 1) - sum(length * (length * length - 1) for length in lengths)) // 6
    is_bf16 = arguments.precision == "bf16"
    # README.md derives these counts.
    flops = 12 * nonterminals * (nonterminals * spans + preterminals * words)
    loaded = (12 if is_bf16 else 24) * nonterminals * splits
    return flops <= (MOST_WASTED_FLOPS_BF16 if is_bf16 else MOST_WASTED_FLOPS) and loaded <= MOST_WASTED_BYTES


def is_launch_bound(arguments: InsideArguments) -> bool:
    """Return whether launching the kernels of a call one by one takes longer than running them, about.

    For each span there are three matrix products with rules: one forward and two backward. On an H200 a call of 3e12
    operations in bfloat16 was 1.4 to 2.2 times faster as a graph, one of 11e12 no faster.
    """
    batch, n, nonterminals, preterminals = arguments.sizes
    spans, words = batch * n * (n - 1) // 2, batch * n
    flops = 12 * nonterminals * (nonterminals * spans + preterminals * words)
    return flops <= (MOST_FLOPS_BF16 if arguments.precision == "bf16" else MOST_FLOPS)


def make_padded_chart(arguments: InsideArguments) -> "PaddedChart":
    """Return the chart of one batch of mixed lengths."""
    assert arguments.lengths is not None
    emissions = arguments.log_emissions.detach().clone(memory_format=torch.contiguous_format)
    chart = PaddedChart(replace(arguments, log_emissions=emissions, lengths=None))
    chart.set_lengths(arguments.lengths)
    return chart


class PaddedChart(PackedChart):
    """The packed chart of a batch whose lengths are in tensors, which ``set_lengths`` overwrites.

    ``fill`` sets the emissions beyond the end of each sentence to -inf, in place.
    """

    def __init__(self, arguments: InsideArguments) -> None:
        super().__init__(arguments)
        # The tables of a layout are shared by all charts of the shape, and these two change.
        lengths = torch.full((self.batch,), self.layout.n, dtype=torch.int32, device=self.device)
        self.layout = replace(self.layout, top_rows=self.layout.top_rows.clone(), length_of_sentence=lengths)
        self.padded = {"PADDED": True}
        self._positions = torch.arange(self.layout.n, dtype=torch.int32, device=self.device)

    def set_lengths(self, lengths: Tensor) -> None:
        """Copy lengths [B] from the host, without waiting for the device."""
        tables = padded_tables(lengths, self.layout.n, self.device).to(self.device, non_blocking=True)
        self.layout.length_of_sentence.copy_(tables[0])
        self.layout.top_rows.copy_(tables[1])

    def fill(self) -> Tensor:
        beyond = self._positions >= self.layout.length_of_sentence[:, None]  # [B, n]
        self.arguments.log_emissions.masked_fill_(beyond[:, :, None], -torch.inf)
        return super().fill()

    def whole_sentences(self, grad: Tensor, alpha: Tensor, by_root: Tensor) -> None:
        """Compute d log Z / d β of whole sentences of all lengths; all other rows are set to 0."""
        alpha.zero_()
        super().whole_sentences(grad, alpha, by_root)

    def outside_product(self, by_child: Tensor, rules: Tensor, alpha: Tensor) -> None:
        """Add to what the rows hold: those of whole sentences, which have no parents, keep their derivatives."""
        torch.addmm(alpha, by_child, rules, out=alpha)
