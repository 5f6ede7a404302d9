"""Sampling from an ordinary PCFG: trees of given sentences, from their posterior, or derivations of the grammar."""

import math
from typing import Protocol

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.autocast import without_autocast
from simplepcfg.ops.dense.arguments import DenseArguments, check_dense_arguments
from simplepcfg.ops.dense.chart import DenseChart
from simplepcfg.ops.dense.lengths import length_rows
from simplepcfg.ops.dense.naive_sample import naive_dense_sample
from simplepcfg.ops.dense.trees import dense_tree_log_probabilities
from simplepcfg.ops.descent import Nodes, descend
from simplepcfg.ops.sample.draws import BEFORE_NODES, NODE_DRAWS, draw_uniforms, pick, pick_from_logs
from simplepcfg.ops.sample.requests import check_request
from simplepcfg.ops.trees import Trees, TreeTensors, empty_trees, stack_trees

BACKENDS = ("naive", "torch")

# The number of elements of rules, and of rows of splits, that are held at a time.
WEIGHTS_AT_ONCE = 1 << 24


class Rows(Protocol):
    """Inside probabilities in float64, each vector with an exponent of its own, and the rules."""

    def spans(self, sentence: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Return β [..., N] and exponents [...] of spans; for a single word only the exponent is meaningful."""
        ...

    def words(self, sentence: Tensor, start: Tensor) -> Tensor:
        """Return the emissions of words: [X, P]."""
        ...

    def word_first(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Compute Σ_T rules[A, T, C] words[T] of a word as left child: [X, N]."""
        ...

    def word_last(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Compute Σ_T rules[A, B, T] words[T] of a word as right child: [X, N]."""
        ...

    def of_parents(self, sentence: Tensor, label: Tensor) -> Tensor:
        """Rules of some parents: [X, S, S]."""
        ...


@without_autocast
def dense_sample_trees(
    log_emissions: Tensor,
    root: Tensor,
    rules: Tensor,
    samples: int,
    generator: torch.Generator,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    backend: str = "auto",
) -> Trees:
    """Draw independent labelled trees of each sentence from their posterior distribution.

    The other arguments are those of ``dense_inside``. The chart is in float64.

    Returns:
        ``Trees`` with leading dimensions [B, samples]. Their log-probabilities are log p(words, tree), and
        differentiable. A sentence of one word, or of probability 0, has no tree.

    Raises:
        InputError: if ``samples`` is less than 1, or as ``dense_inside`` does.
    """
    if samples < 1:
        raise InputError(f"samples = {samples}; ask for at least one tree a sentence")
    if backend not in ("auto", *BACKENDS):
        raise InputError(f"backend {backend!r} is unknown; take one of auto, {', '.join(BACKENDS)}")
    arguments = check_dense_arguments(log_emissions, root, rules, lengths, span_bonus)
    batch, n, _, _ = arguments.sizes
    uniforms = draw_uniforms(batch * samples, n, generator, log_emissions.device)
    if n == 1:
        return empty_trees(batch * samples, arguments.log_emissions).view(batch, samples)
    sentence = torch.arange(batch, device=log_emissions.device)
    with torch.no_grad():
        exact = arguments.of_sentences(sentence, torch.float64)
        found = _draw(exact, samples, uniforms, backend)
    sentence = sentence.repeat_interleave(samples, output_size=batch * samples)
    scores = dense_tree_log_probabilities(arguments, sentence, *found)
    return Trees(*found, scores).view(batch, samples)


def _draw(arguments: DenseArguments, samples: int, uniforms: Tensor, backend: str) -> TreeTensors:
    batch, n, _, _ = arguments.sizes
    if backend == "naive":
        trees = [naive_dense_sample(arguments, row // samples, uniforms[row]) for row in range(batch * samples)]
        return stack_trees(trees, n, uniforms.device)
    chart = DenseChart(arguments)
    log_z = chart.fill()
    roots = pick_from_logs(arguments.root.log() + chart.top.log(), uniforms[:, 1].view(batch, samples))
    roots = torch.where(log_z[:, None] > -math.inf, roots, -1).view(-1)
    lengths = torch.full((batch,), n, device=roots.device) if chart.lengths is None else chart.lengths
    nodes = Nodes.begin(roots, lengths.repeat_interleave(samples), n)
    sentence = torch.arange(batch, device=roots.device).repeat_interleave(samples)
    _draw_nodes(nodes, _ChartRows(chart), sentence, uniforms)
    return nodes.to_tensors()


@without_autocast
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
    with torch.no_grad():
        rows = length_rows(root, rules, max_length)
        log_kept = rows.log_lengths.logsumexp(0)
        if float(log_kept) == -math.inf:
            raise InputError(
                f"no sentence of at most {max_length} words has a probability above 0; raise max_length, or a "
                "temperature near 0"
            )
        uniforms = draw_uniforms(count, max_length, generator, rules.device)
        lengths = pick_from_logs(rows.log_lengths[None], uniforms[None, :, 0])[0]
        roots = pick(rows.beta[lengths] * root.double(), uniforms[:, 1])
        nodes = Nodes.begin(roots, lengths, max_length)
        _draw_nodes(nodes, rows, torch.zeros_like(lengths), uniforms)
    return nodes.to_tensors(), lengths, log_kept


def _draw_nodes(nodes: Nodes, rows: Rows, sentence: Tensor, uniforms: Tensor) -> None:
    """Draw all nodes below the first of each tree; ``sentence`` [T] is the index of its sentence in the rows."""

    def choose(step: int, start: Tensor, end: Tensor, label: Tensor, active: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = BEFORE_NODES + NODE_DRAWS * step
        found = torch.stack([start + 1, torch.zeros_like(start), torch.zeros_like(start)])
        trees = active.nonzero().squeeze(1)
        if trees.numel():
            longest = int((end - start)[trees].max())
            like = rows.of_parents(sentence[trees[:1]], label[trees[:1]])
            each = like.numel() + 4 * longest * like.shape[-1]
            for some in trees.split(max(1, WEIGHTS_AT_ONCE // each)):
                given = (sentence[some], start[some], end[some], label[some])
                found[:, some] = _choose(rows, *given, longest, uniforms[some, first : first + NODE_DRAWS])
        return found[0], found[1], found[2]

    descend(nodes, choose)


def _choose(
    rows: Rows, sentence: Tensor, start: Tensor, end: Tensor, label: Tensor, longest: int, uniforms: Tensor
) -> Tensor:
    """Draw the split, the left and the right child of some nodes: [3, X]."""
    rules = rows.of_parents(sentence, label)  # [X, S, S]
    logs = _split_logs(rows, rules, sentence, start, end, label, longest)
    split = start + 1 + pick_from_logs(logs, uniforms[:, 0])
    states = rows.spans(sentence[:1], start[:1], end[:1])[0].shape[-1]
    left, right = (_child(rows, sentence, *span, states) for span in ((start, split), (split, end)))  # [X, S]
    first = pick(left * torch.matmul(rules, right[..., None])[..., 0], uniforms[:, 1])
    second = pick(rules[torch.arange(len(first), device=first.device), first] * right, uniforms[:, 2])
    # In trees preterminals are numbered from 0.
    children = ((first, split - start), (second, end - split))
    return torch.stack([split, *(torch.where(width == 1, symbol - states, symbol) for symbol, width in children)])


def _split_logs(
    rows: Rows, rules: Tensor, sentence: Tensor, start: Tensor, end: Tensor, label: Tensor, longest: int
) -> Tensor:
    """Compute the log-weight of each split, summed over children: [X, longest - 1]; -inf beyond the node's splits."""
    width = (end - start)[:, None]
    m = torch.arange(1, longest, device=start.device)
    middle = torch.minimum(start[:, None] + m, end[:, None] - 1)
    where = sentence[:, None]
    left, before = rows.spans(where, start[:, None], middle)  # [X, splits, N], [X, splits]
    right, after = rows.spans(where, middle, end[:, None])
    states = left.shape[-1]
    # The weight of each right child, summed over left children; the first split has a word as its left child.
    through = torch.matmul(left, rules[:, :states, :states])
    through[:, 0] = rows.word_first(sentence, start, label)
    sums = (through * right).sum(-1)
    last = rows.word_last(sentence, end - 1, label)
    sums = torch.where(m == width - 1, torch.matmul(left, last[..., None])[..., 0], sums)
    logs = sums.log() + (before + after) * math.log(2)
    # A span of two words has a single split, with an arbitrary weight.
    return torch.where(width == 2, 0.0, logs).masked_fill(m >= width, -math.inf)


def _child(rows: Rows, sentence: Tensor, start: Tensor, end: Tensor, states: int) -> Tensor:
    """Return the inside probabilities of all symbols over a child's span: [X, S]."""
    wide = (end - start > 1)[:, None]
    inner, words = rows.spans(sentence, start, end)[0], rows.words(sentence, start)
    return torch.cat([torch.where(wide, inner, 0.0), torch.where(wide, 0.0, words)], -1)


class _ChartRows:
    """The ``Rows`` of a filled chart."""

    def __init__(self, chart: DenseChart) -> None:
        self.chart = chart
        self.cells, self.exponents = chart.cells.values, chart.exponents.values  # [n + 1, B, n + 1, …]
        self.emissions = chart.words.view(chart.n, chart.batch, -1)
        if chart.n > 2:
            # The matrices of words as right children and as left children: [n, B, N, N] each.
            self.after, self.before = chart.matrices.unflatten(0, (2, chart.n, chart.batch)).unbind()

    def spans(self, sentence: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stored β and its exponent."""
        posts = self.chart.n + 1
        place = (start, sentence, (posts - (end - start)) % posts)  # as left children; column 0 is empty
        return self.cells[place], self.exponents[place]

    def words(self, sentence: Tensor, start: Tensor) -> Tensor:
        """Return emissions up to a factor."""
        return self.emissions[start.clamp(max=self.chart.n - 1), sentence]

    def word_first(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Read the matrix of the word, which a chart of two words does not have or need."""
        return self.before[start, sentence, label] if self.chart.n > 2 else self._nothing(label)

    def word_last(self, sentence: Tensor, start: Tensor, label: Tensor) -> Tensor:
        """Read the matrix of the word as a right child."""
        return self.after[start, sentence, label] if self.chart.n > 2 else self._nothing(label)

    def of_parents(self, sentence: Tensor, label: Tensor) -> Tensor:
        """Return rules of some parents, of each sentence if they have a batch dimension."""
        rules = self.chart.arguments.rules
        return rules[sentence, label] if rules.dim() == 4 else rules[label]

    def _nothing(self, label: Tensor) -> Tensor:
        return self.cells.new_zeros(label.shape[0], self.cells.shape[-1])
