"""The optimizer step on a GPU in four kernels: sums of the batch, norm of the gradient, checks and clipping, AdamW.

`training.step.tally` and `training.step.update` have the same in PyTorch, with which the tests compare these kernels.
"""

from simplepcfg.ops.update.fused import AdamTable, ParameterState, adam, count_batch, finish_step, square_sums

__all__ = ["AdamTable", "ParameterState", "adam", "count_batch", "finish_step", "square_sums"]
