"""What a training step on a GPU does beside its gradient, in four kernels: count, measure, decide, move.

`training.tally` and `training.update` have the same in torch, which tests compare with these.
"""

from simplepcfg.ops.update.fused import AdamTable, Moved, adam, count_batch, settle, square_sums

__all__ = ["AdamTable", "Moved", "adam", "count_batch", "settle", "square_sums"]
