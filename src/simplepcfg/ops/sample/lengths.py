"""The distribution of sentence lengths of a grammar, by which sentences of a limited length are drawn directly.

    g_w[A] = Σ_{0<k<w} λ_k[A] ρ_{w−k}[A]      λ_w = L_N g_w,  ρ_w = R_N g_w      λ_1, ρ_1 = row sums of L_P, R_P

g_w[A] is the probability that A generates some w words. This is the inside algorithm with all emissions equal to 1,
where spans of the same width have the same values.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import SimpleRules
from simplepcfg.ops.sample.draws import WEIGHTS_AT_ONCE, pick, pick_from_logs

DEAD = -1.0e9
# The table of lengths costs their square; nobody waits for more, and no sentence has so many words.
MOST_WORDS = 10_000


@dataclass(frozen=True, slots=True)
class LengthTable:
    """Inside values by width 0 … longest; row 0 is not used."""

    beta: Tensor  # [longest + 1, N]: g, each row up to a factor, from width 2 on
    all_rules: Tensor  # [2N, N + P]: L over R
    words: Tensor  # [1, P]: ones, the emissions
    log_lengths: Tensor  # [longest + 1], float64: log P(length), -inf for 0 and 1
    log_children: Tensor  # [longest + 1, 2N], float64: log λ and log ρ, exponents included

    # The methods of ``top_down.Tables``; sentence and start are ignored.

    def split_logs(self, sentence: Tensor, start: Tensor, width: Tensor, label: Tensor) -> Tensor:
        states = self.beta.shape[1]
        m = torch.arange(1, int(width.max()), device=width.device)
        rest = (width[:, None] - m).clamp(min=0)
        return self.log_children[m, label[:, None]] + self.log_children[rest, states + label[:, None]]

    def values(self, sentence: Tensor, start: Tensor, width: Tensor) -> Tensor:
        return self.words if int(width[0]) == 1 else self.beta[width]


def length_table(rules: SimpleRules, longest: int) -> LengthTable:
    """Compute the table up to a length, with split sums in float64 and products in the dtype of the rules.

    Results are stored in float32 or wider, because bfloat16 cannot represent large exponents exactly.
    """
    states, symbols = rules.left.shape
    kept = torch.promote_types(rules.left.dtype, torch.float32)
    device = rules.left.device
    both = torch.cat([rules.left, rules.right])
    children = torch.zeros(longest + 1, 2 * states, dtype=torch.float64, device=device)
    beta = torch.zeros(longest + 1, states, dtype=torch.float64, device=device)
    exponent = torch.full((longest + 1,), DEAD, dtype=torch.float64, device=device)
    children[1] = both[:, states:].sum(-1, dtype=torch.float64)
    exponent[1] = 0.0
    for width in range(2, longest + 1):
        splits = exponent[1:width] + exponent[1:width].flip(0)
        place = splits.max()
        factors = torch.exp2(splits - place)[:, None]
        sums = (factors * children[1:width, :states] * children[1:width, states:].flip(0)).sum(0)
        shift = torch.frexp(sums.max()).exponent.double()  # scales the maximum to at most 1
        beta[width] = torch.ldexp(sums, -shift)
        alive = (place > DEAD / 2) & (sums.max() > 0)
        exponent[width] = torch.where(alive, place + shift, DEAD)
        children[width] = (both[:, :states] @ beta[width].to(both.dtype)).double()
    log_lengths = (beta @ rules.root.double()).log() + exponent * math.log(2)
    return LengthTable(
        beta.to(kept),
        both,
        torch.ones(1, symbols - states, dtype=kept, device=device),
        log_lengths,
        children.log() + (exponent * math.log(2))[:, None],
    )


def draw_lengths_and_roots(table: LengthTable, root: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the length of each tree and its root symbol, given the length, by the first two numbers of its row: [T]."""
    lengths = pick_from_logs(table.log_lengths[None], uniforms[None, :, 0])[0]
    weights = table.beta.double() * root.double()  # [longest + 1, N]
    step = max(1, WEIGHTS_AT_ONCE // root.shape[0])
    parts = zip(lengths.split(step), uniforms[:, 1].split(step), strict=True)
    return lengths, torch.cat([pick(weights[some], numbers) for some, numbers in parts])


def check_request(count: int, max_length: int) -> None:
    """Raise InputError unless so many sentences of so few words can be drawn from a grammar of binary rules."""
    if count < 1:
        raise InputError(f"count = {count}; ask for at least one sentence")
    if max_length < 2:
        raise InputError(f"max_length = {max_length}; the shortest sentence of this grammar has two words")
    if max_length > MOST_WORDS:
        raise InputError(f"max_length = {max_length}; {MOST_WORDS} words are the most that can be drawn")


def check_kept(log_kept: Tensor, max_length: int) -> None:
    """Raise InputError if the log-probability of a sentence of at most ``max_length`` words is -inf."""
    if float(log_kept) == -math.inf:
        raise InputError(
            f"no sentence of at most {max_length} words has a probability above 0; raise max_length, or a "
            "temperature near 0"
        )
