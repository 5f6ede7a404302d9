"""FlashInside as the paper describes it (Liu et al. 2023), which inside_gpu.py compares with.

It works in log space, with one kernel for each width that sums over the splits of all spans, matrix products by
PyTorch, and a hand-written backward pass that recomputes the splits' sums. Sentences must have equal
lengths, and rules no batch dimension.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

import paper_kernels as kernels
from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.autograd_context import Context
from simplepcfg.ops.inside.log_space import log_einsum_exp_inside


def paper_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z of each sentence."""
    check_paper_arguments(arguments)
    if arguments.log_emissions.shape[1] == 1:
        return log_einsum_exp_inside(arguments)
    dtype = arguments.log_emissions.dtype
    return _PaperInside.apply(
        arguments.log_emissions,
        arguments.root,
        arguments.left.to(dtype),
        arguments.right.to(dtype),
        arguments.precision == "tf32",
    )


def check_paper_arguments(arguments: InsideArguments) -> None:
    """Raise InputError for what the paper's backend does not take."""
    reason = None
    if arguments.lengths is not None:
        reason = "sentences of different lengths"
    elif arguments.batched_rules or arguments.root.dim() == 2:
        reason = "rules with a batch dimension"
    elif arguments.span_bonus is not None:
        reason = "a span bonus"
    elif arguments.precision == "bf16":
        reason = "precision bf16"
    if reason is not None:
        raise InputError(f"the paper's backend, a reference for benchmarks, does not take {reason}; use backend auto")


class _PaperInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, tf32: bool) -> Tensor:
        chart = LogChart(log_emissions, root, left, right, tf32)
        log_z = chart.fill()
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(log_emissions, root, left, right)
            ctx.chart = chart
        return log_z

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  lets torch check that no input was modified in place
        return *ctx.chart.backward(grads[0]), None


class LogChart:
    """log η, log ζ and log β of every span, [rows, N] each, and the maximum of log β (or of emissions) of each row.

    The backward pass only reads the chart.
    """

    def __init__(self, log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, tf32: bool) -> None:
        self.batch, self.n, self.tags = log_emissions.shape
        self.states = root.shape[0]
        self.emissions = log_emissions.detach().reshape(-1, self.tags).contiguous()
        self.root, self.left, self.right = root.detach(), left.detach(), right.detach()
        self.tf32 = tf32
        rows = self.rows(self.n).stop
        self.log_eta, self.log_zeta = self._empty(rows, self.states), self._empty(rows, self.states)
        self.log_beta, self.maxima = self._empty(rows, self.states), self._empty(rows)
        self.log_z: Tensor

    def rows(self, width: int) -> slice:
        """Return the rows of a width."""
        first = self.batch * ((width - 1) * (self.n + 1) - (width - 1) * width // 2)
        return slice(first, first + self.batch * (self.n - width + 1))

    def fill(self) -> Tensor:
        """Run the forward pass and return log Z of each sentence."""
        torch.amax(self.emissions, 1, out=self.maxima[self.rows(1)])
        self._multiply(1)
        for width in range(2, self.n + 1):
            self._merge(width)
            if width < self.n:
                self._multiply(width)
        top = self.log_beta[self.rows(self.n)] + self.root.log()
        self.log_z = torch.logsumexp(top, 1)
        return self.log_z.clone()

    def _merge(self, width: int) -> None:
        rows = self.rows(width)
        spans = rows.stop - rows.start
        block, blocks, block_k = self._tile(spans)
        maxima = self._empty(spans, blocks)
        kernels.merge_fwd_kernel[(spans, blocks)](
            self.log_eta, self.log_zeta, self.log_beta, maxima, width, self.batch, self.n, self.states,
            WORK=self._work(), BLOCK_K=block_k, BLOCK=block,
        )  # fmt: skip
        torch.amax(maxima, 1, out=self.maxima[rows])

    def _normalised(self, width: int) -> Tensor:
        """Compute exp(log β − maximum) of the spans of a width, or of the emissions of words."""
        rows = self.rows(width)
        logs = self.emissions if width == 1 else self.log_beta[rows]
        values = torch.empty_like(logs)
        count, columns = logs.shape
        block = _block_size(columns)
        kernels.normalise_kernel[(count, triton.cdiv(columns, block))](
            logs, self.maxima[rows], values, columns, BLOCK=block
        )
        return values

    def _multiply(self, width: int) -> None:
        """Compute log η and log ζ of a width by two matrix products of exponentials."""
        rows = self.rows(width)
        values = self._normalised(width)
        eta, zeta = self.log_eta[rows], self.log_zeta[rows]
        with self._matrix_mode():
            torch.mm(values, self._columns(self.left, width).T, out=eta)
            torch.mm(values, self._columns(self.right, width).T, out=zeta)
        block = _block_size(self.states)
        kernels.log_fwd_kernel[(rows.stop - rows.start, triton.cdiv(self.states, block))](
            eta, zeta, self.maxima[rows], self.states, BLOCK=block
        )

    def backward(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Compute the gradients of log_emissions, root, left and right."""
        possible = self.log_z > -torch.inf
        weight = torch.where(possible, grad, 0.0)[:, None]
        log_z = torch.where(possible, self.log_z, 0.0)[:, None]
        top = self.log_beta[self.rows(self.n)]
        by_log_beta = (top + self.root.log() - log_z).exp_().mul_(weight)
        by_root = torch.where(weight == 0, 0.0, (top - log_z).exp_().mul_(weight)).sum(0)
        by_eta, by_zeta = torch.zeros_like(self.log_eta), torch.zeros_like(self.log_zeta)
        by_left, by_right = torch.zeros_like(self.left), torch.zeros_like(self.right)
        for width in range(self.n, 1, -1):
            self._spread(width, by_log_beta, by_eta, by_zeta)
            by_log_beta = self._unmultiply(width - 1, by_eta, by_zeta, by_left, by_right)
        return by_log_beta.view(self.batch, self.n, self.tags), by_root, by_left, by_right

    def _spread(self, width: int, by_log_beta: Tensor, by_eta: Tensor, by_zeta: Tensor) -> None:
        """Add the contribution of the spans of a width to the derivatives of their children."""
        spans = by_log_beta.shape[0]
        block, blocks, block_k = self._tile(spans)
        kernels.merge_bwd_kernel[(spans, blocks)](
            self.log_eta, self.log_zeta, self.log_beta, by_log_beta, by_eta, by_zeta, width, self.batch, self.n,
            self.states, BLOCK_K=block_k, BLOCK=block,
        )  # fmt: skip

    def _unmultiply(self, width: int, by_eta: Tensor, by_zeta: Tensor, by_left: Tensor, by_right: Tensor) -> Tensor:
        """Differentiate the matrix products of a width: add to the rules' gradients, and return that of log β."""
        rows = self.rows(width)
        eta, zeta = by_eta[rows], by_zeta[rows]
        block = _block_size(self.states)
        kernels.log_bwd_kernel[(rows.stop - rows.start, triton.cdiv(self.states, block))](
            self.log_eta[rows], self.log_zeta[rows], self.maxima[rows], eta, zeta, self.states, BLOCK=block
        )
        values = self._normalised(width)
        with self._matrix_mode():
            self._columns(by_left, width).addmm_(eta.T, values)
            self._columns(by_right, width).addmm_(zeta.T, values)
            by_values = torch.mm(eta, self._columns(self.left, width))
            by_values.addmm_(zeta, self._columns(self.right, width))
        return by_values.mul_(values)

    def _columns(self, rules: Tensor, width: int) -> Tensor:
        """Return the columns of the rules for children of this width: preterminals or nonterminals."""
        return rules[:, self.states :] if width == 1 else rules[:, : self.states]

    def _tile(self, spans: int) -> tuple[int, int, int]:
        """Return states per tile, number of tiles, and splits per tile; tiles are narrower if there are few spans."""
        block = _block_size(self.states)
        while block > 128 and spans * triton.cdiv(self.states, block) < 528:
            block //= 2
        return block, triton.cdiv(self.states, block), 4

    def _work(self) -> tl.dtype:
        return tl.float64 if self.log_eta.dtype == torch.float64 else tl.float32

    def _empty(self, *size: int) -> Tensor:
        return torch.empty(size, dtype=self.emissions.dtype, device=self.emissions.device)

    @contextmanager
    def _matrix_mode(self) -> Iterator[None]:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


def _block_size(columns: int) -> int:
    return min(triton.next_power_of_2(columns), 512)
