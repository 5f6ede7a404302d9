"""The inside algorithm in log space, differentiated by autograd: the two baselines of the paper."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.logs import safe_log, safe_logsumexp

NEG_INF = -math.inf


def log_einsum_exp_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z by the log-einsum-exp trick of Peharz et al.: one matrix product for each width."""
    return log_space_inside(arguments, LogEinsumExp(arguments))


def log_sum_exp_inside(arguments: InsideArguments) -> Tensor:
    """Compute log Z by log-sum-exp over a materialised [spans, N, N] tensor, which needs much memory."""
    return log_space_inside(arguments, LogSumExp(arguments))


class LogEinsumExp:
    """Map log β to log [η | ζ] by exponentials relative to the maximum, a matrix product and a logarithm."""

    def __init__(self, arguments: InsideArguments) -> None:
        nonterminals = arguments.root.shape[-1]
        rules = torch.cat([arguments.left, arguments.right], dim=-2).transpose(-1, -2)  # [(B,) N + P, 2N]
        self.dtype = torch.bfloat16 if arguments.precision == "bf16" else rules.dtype
        rules = self.operand(rules)
        self.nonterminals = rules[..., :nonterminals, :]
        self.preterminals = rules[..., nonterminals:, :]

    def operand(self, values: Tensor) -> Tensor:
        """Round to the precision of the matrix products."""
        return values.to(self.dtype)

    def words(self, log_emissions: Tensor) -> Tensor:
        return self._product(log_emissions, self.preterminals)

    def spans(self, beta: Tensor) -> Tensor:
        return self._product(beta, self.nonterminals)

    def _product(self, logs: Tensor, rules: Tensor) -> Tensor:
        scale = logs.detach().amax(-1, keepdim=True)
        scale = torch.where(scale == NEG_INF, torch.zeros_like(scale), scale)
        product = torch.matmul(self.operand((logs - scale).exp()), rules)
        return safe_log(product.to(logs.dtype)) + scale


class LogSumExp:
    """Map log β to log [η | ζ] by a log-sum-exp over every pair of symbols."""

    def __init__(self, arguments: InsideArguments) -> None:
        nonterminals = arguments.root.shape[-1]
        rules = safe_log(torch.cat([arguments.left, arguments.right], dim=-2))  # [(B,) 2N, N + P]
        rules = rules.unsqueeze(-3)  # a dimension for the spans
        self.nonterminals = rules[..., :nonterminals]
        self.preterminals = rules[..., nonterminals:]

    def words(self, log_emissions: Tensor) -> Tensor:
        return safe_logsumexp(log_emissions.unsqueeze(-2) + self.preterminals, -1)

    def spans(self, beta: Tensor) -> Tensor:
        return safe_logsumexp(beta.unsqueeze(-2) + self.nonterminals, -1)


def log_space_inside(arguments: InsideArguments, step: LogEinsumExp | LogSumExp) -> Tensor:
    """Compute log Z of each sentence; ``step`` maps log β of the spans of one width to log [η | ζ]."""
    batch, n, nonterminals, _ = arguments.sizes
    lengths = arguments.lengths_on_device
    emissions = arguments.log_emissions
    if lengths is not None:
        beyond = torch.arange(n, device=emissions.device) >= lengths[:, None]
        emissions = emissions.masked_fill(beyond[:, :, None], NEG_INF)
    children = step.words(emissions)  # [B, n, 2N]
    # One list entry for each width: [B, n - width + 1, N].
    etas, zetas = [children[..., :nonterminals]], [children[..., nonterminals:]]
    tops = []
    for width in range(2, n + 1):
        spans = n - width + 1
        eta = torch.stack([etas[k - 1][:, :spans] for k in range(1, width)], 2)  # [B, spans, splits, N]
        zeta = torch.stack([zetas[width - k - 1][:, k : k + spans] for k in range(1, width)], 2)
        beta = safe_logsumexp(eta + zeta, 2)
        if arguments.span_bonus is not None:
            beta = beta + torch.diagonal(arguments.span_bonus, width, 1, 2)[:, :spans, None]
        tops.append(beta[:, 0])
        if width < n:
            children = step.spans(beta)
            etas.append(children[..., :nonterminals])
            zetas.append(children[..., nonterminals:])
    if n == 1:
        return (emissions.sum((1, 2)) * 0.0).nan_to_num(0.0) + NEG_INF
    top = tops[-1]
    if lengths is not None:
        rows = torch.stack(tops, 1)  # [B, n - 1, N]
        top = rows[torch.arange(batch, device=rows.device), (lengths - 2).clamp(min=0)]
        top = torch.where((lengths < 2)[:, None], torch.full_like(top, NEG_INF), top)
    return safe_logsumexp(top + safe_log(arguments.root), -1)
