"""Samples of an ordinary PCFG as textbooks write them: the references of `simplepcfg.ops.dense`.

All in float64, one sentence, span and split at a time.
"""

import torch
from torch import Tensor

from naive_sample import draw, sample_top_down
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.trees import with_log_probabilities
from simplepcfg.ops.sample.draws import draw_uniforms
from simplepcfg.ops.trees import LabelledTree, Trees, stack_trees

Span = tuple[int, int]


def naive_dense_sample_trees(arguments: DenseArguments, samples: int, generator: torch.Generator) -> Trees:
    """Draw what `dense_sample_trees` draws, one tree after the other."""
    batch, n, _, _ = arguments.sizes
    uniforms = draw_uniforms(batch * samples, n, generator, arguments.log_emissions.device)
    with torch.no_grad():
        drawn = [naive_dense_sample(arguments, row // samples, uniforms[row]) for row in range(batch * samples)]
    trees = stack_trees(drawn, n, uniforms.device)
    return with_log_probabilities(arguments, torch.arange(batch).repeat_interleave(samples), trees).view(batch, samples)


def naive_dense_sample(arguments: DenseArguments, b: int, uniforms: Tensor) -> LabelledTree:
    """Draw a tree of sentence ``b`` by the uniform numbers [2 + 3 (n − 1)] of one row of ``draw_uniforms``."""
    root, rules, log_emissions, bonus = _sentence(arguments, b)
    beta, n = _inside((log_emissions - _largest(log_emissions)).exp(), rules, bonus), len(log_emissions)

    def choose(i: int, j: int, symbol: int, three: Tensor) -> tuple[int, int, int]:
        weights = [_pairs(rules, beta, i, k, j)[symbol] for k in range(i + 1, j)]  # by split: [B, C]
        chosen = draw(torch.stack([weight.sum() for weight in weights]), three[0])
        left = draw(weights[chosen].sum(1), three[1])
        return i + 1 + chosen, left, draw(weights[chosen][left], three[2])

    return sample_top_down(n, root * beta[0, n] if n > 1 else root[:0], uniforms, choose)


def _sentence(arguments: DenseArguments, b: int) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return root, rules, log-emissions [n, P] and span bonus of one sentence in float64."""
    n = arguments.sizes[1] if arguments.lengths is None else int(arguments.lengths[b])
    root = arguments.root[b] if arguments.root.dim() == 2 else arguments.root
    rules = arguments.rules[b] if arguments.batched_rules else arguments.rules
    bonus = None if arguments.span_bonus is None else arguments.span_bonus[b].double()
    return root.double(), rules.double(), arguments.log_emissions[b, :n].double(), bonus


def _inside(emit: Tensor, rules: Tensor, bonus: Tensor | None) -> dict[Span, Tensor]:
    """Compute β of every span: [P] of words, [N] of wider spans."""
    n = len(emit)
    beta = {(i, i + 1): emit[i] for i in range(n)}
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            beta[i, j] = torch.stack([_pairs(rules, beta, i, k, j).sum((1, 2)) for k in range(i + 1, j)]).sum(0)
            if bonus is not None:
                beta[i, j] = beta[i, j] * bonus[i, j].exp()
    return beta


def _pairs(rules: Tensor, beta: dict[Span, Tensor], i: int, k: int, j: int) -> Tensor:
    """Compute rules[A, B, C] β(i,k)[B] β(k,j)[C]."""
    block = rules[:, _symbols(len(rules), i, k), _symbols(len(rules), k, j)]
    return block * beta[i, k][:, None] * beta[k, j]


def _symbols(nonterminals: int, i: int, j: int) -> slice:
    """Return where the symbols over a span stand in the rules."""
    return slice(nonterminals, None) if j - i == 1 else slice(nonterminals)


def _largest(log_emissions: Tensor) -> Tensor:
    """Return the largest log-emission of each word, [n, 1]; 0 if all are -inf."""
    scale = log_emissions.detach().amax(1, keepdim=True)
    return torch.where(scale.isfinite(), scale, 0.0)
