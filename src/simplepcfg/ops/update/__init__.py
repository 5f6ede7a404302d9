"""The optimizer step on a GPU in four kernels: sums of the batch, norm of the gradient, checks and clipping, AdamW.

`training.step.counters` and `training.step.update` have the same in PyTorch, which tests compare with these kernels.
"""

from simplepcfg.ops.update.fused import AdamTable, ParameterState, adam, count_batch, finish_step, square_sums

__all__ = ["AdamTable", "ParameterState", "adam", "count_batch", "finish_step", "square_sums"]
