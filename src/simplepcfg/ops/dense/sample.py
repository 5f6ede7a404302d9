"""Sampling from an ordinary PCFG: trees of given sentences, from their posterior, or derivations of the grammar."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.dense.arguments import DenseArguments
from simplepcfg.ops.dense.recursion import Sums, inside_cells, log_product
from simplepcfg.ops.dense.trees import as_children, with_log_probabilities
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.sample.draws import BEFORE_NODES, NODE_DRAWS, draw_uniforms, pick_from_logs
from simplepcfg.ops.sample.lengths import check_kept, check_request
from simplepcfg.ops.tensor_fields import in_float64
from simplepcfg.ops.trees import Trees, TreeTensors, empty_trees

# The number of elements of rules, and of rows of splits, that are held at a time.
WEIGHTS_AT_ONCE = 1 << 24


@without_modes
def dense_sample_trees(arguments: DenseArguments, samples: int, generator: torch.Generator) -> Trees:
    """Draw independent labelled trees of each sentence from their posterior distribution, by a chart in float64.

    Returns ``Trees`` with leading dimensions [B, samples]; their log-probabilities are log p(words, tree), and
    differentiable. A sentence of one word, or of probability 0, has no tree. Raises InputError if ``samples`` is less
    than 1.
    """
    if samples < 1:
        raise InputError(f"samples = {samples}; ask for at least one tree a sentence")
    batch, n, nonterminals, _ = arguments.sizes
    device, count = arguments.log_emissions.device, batch * samples
    uniforms = draw_uniforms(count, n, generator, device)
    if n == 1:
        return empty_trees(count, arguments.log_emissions).view(batch, samples)
    sentence = torch.arange(batch, device=device).repeat_interleave(samples, output_size=count)
    with torch.no_grad():
        given, ends = in_float64(arguments), arguments.ends
        cells = inside_cells(given, Sums())
        tops = cells[torch.arange(batch, device=device), 0, ends, :nonterminals] + given.root.log()  # [B, N]
        roots = pick_from_logs(tops[sentence], uniforms[:, 1])
        roots = roots.masked_fill((tops.amax(-1) == -math.inf)[sentence], -1)
        nodes = Nodes.begin(roots, ends[sentence], n)
        _draw_nodes(nodes, cells, given.rules, sentence, uniforms)
    return with_log_probabilities(arguments, sentence, nodes.to_tensors()).view(batch, samples)


@without_modes
@torch.no_grad()
def dense_sample_derivations(
    root: Tensor, rules: Tensor, count: int, max_length: int, generator: torch.Generator
) -> tuple[TreeTensors, Tensor, Tensor]:
    """Draw derivations of the grammar down to preterminals, given that they have at most ``max_length`` words.

    Returns and raises as ``simplepcfg.ops.sample.sample_derivations`` does.
    """
    if rules.dim() != 3 or root.dim() != 1:
        shapes = f"root and rules have shapes {list(root.shape)} and {list(rules.shape)}"
        raise InputError(f"{shapes}; draw from one grammar at a time: [N] and [N, N + P, N + P]")
    check_request(count, max_length)
    root, rules = root.double(), rules.double()
    cells = _cells_by_width(root, rules, max_length)
    tops = cells[:, : len(root)] + root.log()  # [max_length + 1, N]
    log_lengths = tops.logsumexp(-1)
    log_kept = log_lengths.logsumexp(0)
    check_kept(log_kept, max_length)
    uniforms = draw_uniforms(count, max_length, generator, rules.device)
    lengths = pick_from_logs(log_lengths[None], uniforms[None, :, 0])[0]
    nodes = Nodes.begin(pick_from_logs(tops[lengths], uniforms[:, 1]), lengths, max_length)
    _draw_nodes(nodes, cells, rules, torch.zeros_like(lengths), uniforms)
    return nodes.to_tensors(), lengths, log_kept


def _cells_by_width(root: Tensor, rules: Tensor, longest: int) -> Tensor:
    """Compute log P(a symbol generates so many words, whichever these are) for 0 … longest words: [longest + 1, S]."""
    states = len(root)
    wide = rules[:, :states, :states].flatten(1)
    beside_word = rules[:, states:, :states].sum(1) + rules[:, :states, states:].sum(2)  # every preterminal says a word
    cells = rules.new_full((longest + 1, rules.shape[-1]), -math.inf)
    cells[1, states:] = 0.0
    cells[2, :states] = rules[:, states:, states:].sum((1, 2)).log()
    for width in range(3, longest + 1):
        total = log_product(cells[width - 1 : width, :states], beside_word.mT)
        if width > 3:
            left = cells[2 : width - 1, :states]
            pairs = (left[:, :, None] + left.flip(0)[:, None]).logsumexp(0).flatten()  # log [N²]
            total = torch.logaddexp(total, log_product(pairs[None], wide.mT))
        cells[width, :states] = total
    return cells


def _draw_nodes(nodes: Nodes, cells: Tensor, rules: Tensor, sentence: Tensor, uniforms: Tensor) -> None:
    """Draw all nodes below the first of each tree, whose sentence is given by its index [T].

    ``cells`` are log-inside values by span, [B, n + 1, n + 1, S], or by width only, [n + 1, S].
    """
    nonterminals, symbols = rules.shape[-3:-1]

    def choose(step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = BEFORE_NODES + NODE_DRAWS * step
        drawn = torch.stack([start + 1, torch.zeros_like(start), torch.zeros_like(start)])
        trees = active.nonzero().squeeze(1)
        longest = int((end - start).max())
        at_once = max(1, WEIGHTS_AT_ONCE // (symbols * (symbols + 4 * longest)))
        for some in trees.split(at_once) if len(trees) else ():
            here, spans = sentence[some], (start[some], end[some])
            own = rules[here, label[some]] if rules.dim() == 4 else rules[label[some]]  # [X, S, S]
            drawn[:, some] = _draw_rule(cells, own, here, *spans, longest, uniforms[some, first : first + NODE_DRAWS])
        return as_children(nonterminals, start, end, *drawn.unbind())

    descend(nodes, choose)


def _draw_rule(
    cells: Tensor, rules: Tensor, sentence: Tensor, start: Tensor, end: Tensor, longest: int, uniforms: Tensor
) -> Tensor:
    """Draw the split, the left and the right child of some nodes, one after the other: [3, X]."""

    def values(begin: Tensor, stop: Tensor) -> Tensor:
        return cells[stop - begin] if cells.dim() == 2 else cells[sentence[:, None], begin, stop]

    m = torch.arange(1, longest, device=start.device)
    start, end = start[:, None], end[:, None]
    middle = torch.minimum(start + m, end - 1)  # [X, splits]
    left, right = values(start, middle), values(middle, end)  # [X, splits, S]
    logs = (log_product(left, rules) + right).logsumexp(-1).masked_fill(start + m >= end, -math.inf)
    row, split = torch.arange(len(start), device=start.device), pick_from_logs(logs, uniforms[:, 0])
    left, right = left[row, split], right[row, split]  # [X, S]
    first = pick_from_logs(left + log_product(right[:, None], rules.mT)[:, 0], uniforms[:, 1])
    second = pick_from_logs(rules[row, first].log() + right, uniforms[:, 2])
    return torch.stack([start[:, 0] + 1 + split, first, second])
