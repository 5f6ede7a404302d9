"""Expected rule counts, and the expected score of a derivation if every rule has a score."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments
from simplepcfg.ops.autograd_context import leaf
from simplepcfg.ops.inside import inside_of
from simplepcfg.ops.marginals.outside import outside_rows
from simplepcfg.ops.marginals.rows import Rows

# Scores of rules, in float64, are computed for so many bytes of parents at a time.
CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Expected numbers of uses of S → A, of left children A → B · and of right children A → · C."""

    root: Tensor
    left: Tensor
    right: Tensor

    @property
    def parents(self) -> Tensor:
        """The expected number of uses of each nonterminal, [N] or [B, N]."""
        return self.left.sum(-1)

    @property
    def preterminals(self) -> Tensor:
        """The expected number of uses of each preterminal, [P] or [B, P]."""
        nonterminals = self.left.shape[-2]
        return (self.left + self.right)[..., nonterminals:].sum(-2)


@dataclass(frozen=True, slots=True)
class Scores:
    """A score for every rule, such as its log-probability; the score of a derivation is the sum over its rules.

    +inf is allowed. ``left`` and ``right`` are functions that compute rule · score, with 0 · ∞ = 0, for some parents
    and children at a time.
    """

    emissions: Tensor  # [B, n, P]
    root: Tensor  # [N] or [B, N]
    left: Callable[[slice, slice], Tensor]  # parents, children → [(B,) parents, children]
    right: Callable[[slice, slice], Tensor]
    spans: Tensor | None  # [B, n + 1, n + 1]


def expected_scores(arguments: InsideArguments, scores: Scores, backend: str) -> tuple[Tensor, Tensor]:
    """Compute log Z and the expected score of the derivation of each sentence, for rules without a batch dimension.

    Returns:
        ``(log_z, expectation)``, [B] each, the latter in float64. A rule that no derivation of the sentence uses adds
        nothing, even if its score is infinite. A sentence without a derivation has an expectation of 0.
    """
    batch, n, _, _ = arguments.sizes
    log_z, tables = outside_rows(arguments, backend)
    total = torch.zeros(batch, dtype=torch.float64, device=log_z.device)
    if n == 1:
        return log_z, total
    with torch.no_grad():
        spans: list[tuple[Tensor, Tensor, Tensor]] = []
        for table in tables:
            sentences = table.cells.div((n + 1) ** 2, rounding_mode="floor")
            if table.width == 1:
                _add_tags(total, table, sentences, arguments, scores)
                _add_rules(total, sentences, table.inside, table.by_child, arguments, scores, words=True)
            else:
                _add_spans(total, table, sentences, arguments, scores)
                if table.width < n:
                    spans.append((sentences, table.inside, table.by_child))
        if spans:
            # One product for all widths, so that each chunk of scores is computed once.
            sentences, inside_values, by_child = (torch.cat(parts) for parts in zip(*spans, strict=True))
            _add_rules(total, sentences, inside_values, by_child, arguments, scores, words=False)
    return log_z, total


def expected_scores_of_batched_rules(arguments: InsideArguments, scores: Scores, backend: str) -> tuple[Tensor, Tensor]:
    """Compute ``expected_scores`` for rules with a batch dimension, whose gradients give each sentence's counts."""
    batch, n, states, _ = arguments.sizes
    emissions, root = leaf(arguments.log_emissions, False), leaf(arguments.root.expand(batch, -1), False)
    left, right = leaf(arguments.left, False), leaf(arguments.right, False)
    bonus = None if arguments.span_bonus is None else leaf(arguments.span_bonus, False)
    with torch.enable_grad():
        given = replace(arguments, log_emissions=emissions, root=root, left=left, right=right, span_bonus=bonus)
        log_z = inside_of(given, backend)
        if n == 1:
            return log_z.detach(), torch.zeros_like(log_z, dtype=torch.float64)
        wanted = [emissions, root, left, right] + ([] if bonus is None else [bonus])
        tags, by_root, by_left, by_right, *spans = torch.autograd.grad(log_z.sum(), wanted)
    with torch.no_grad():
        total = _weigh(tags, scores.emissions).sum((1, 2)) + _weigh(by_root.mul_(root), scores.root).sum(1)
        if spans and scores.spans is not None:
            total += _weigh(spans[0], scores.spans).sum((1, 2))
        step = max(1, CHUNK_BYTES // (8 * arguments.left.shape[-1] * batch))
        for start in range(0, states, step):
            parents = slice(start, min(start + step, states))
            for slope, weights in ((by_left, scores.left), (by_right, scores.right)):
                total += _weigh(slope[:, parents], weights(parents, slice(None))).sum((1, 2))
    return log_z.detach(), total


def _add_rules(
    total: Tensor,
    sentences: Tensor,
    values: Tensor,
    by_child: Tensor,
    arguments: InsideArguments,
    scores: Scores,
    words: bool,
) -> None:
    """Add Σ by_child[A] · rule[A, X] · score[A, X] · value[X] of each row to its sentence's total."""
    states = arguments.sizes[2]
    wide = torch.promote_types(values.dtype, torch.float32)
    values = values.to(wide)
    columns = slice(states, None) if words else slice(0, states)
    step = max(1, CHUNK_BYTES // (8 * arguments.left.shape[-1]))
    for start in range(0, states, step):
        parents = slice(start, min(start + step, states))
        for side, (rules, weights_of) in enumerate(((arguments.left, scores.left), (arguments.right, scores.right))):
            weights = weights_of(parents, columns)
            slopes = by_child[:, side * states + start : side * states + parents.stop].to(wide)
            if float(weights.amax()) == torch.inf:
                endless = weights == torch.inf
                lacking = torch.where(endless, rules[parents, columns], 0.0)
                total.masked_fill_(_sum_by_sentence(values, lacking, slopes, sentences, total) > 0, torch.inf)
                weights = weights.masked_fill(endless, 0.0)
            total += _sum_by_sentence(values, weights, slopes, sentences, total)


def _sum_by_sentence(values: Tensor, weights: Tensor, slopes: Tensor, sentences: Tensor, like: Tensor) -> Tensor:
    """Compute Σ slopes[row, A] · weights[A, X] · values[row, X] over the rows of each sentence: [B] in float64."""
    with _full_precision_products():
        sums = torch.matmul(values, weights.to(values.dtype).T).mul_(slopes).sum(1, dtype=torch.float64)
    return torch.zeros_like(like).index_add_(0, sentences, sums)


def _add_tags(total: Tensor, table: Rows, sentences: Tensor, arguments: InsideArguments, scores: Scores) -> None:
    _, n, states, _ = arguments.sizes
    wide = torch.promote_types(table.inside.dtype, torch.float32)
    by_child = table.by_child.to(wide)
    with _full_precision_products():
        outside = by_child[:, :states] @ arguments.left[:, states:].to(wide)
        outside += by_child[:, states:] @ arguments.right[:, states:].to(wide)
    marginal = outside.mul_(table.inside.to(wide))
    starts = table.cells.div(n + 1, rounding_mode="floor") % (n + 1)
    score = scores.emissions[sentences, starts]
    total.index_add_(0, sentences, _weigh(marginal, score).sum(1))


def _add_spans(total: Tensor, table: Rows, sentences: Tensor, arguments: InsideArguments, scores: Scores) -> None:
    """Add the scores of the spans' bonuses and, for whole sentences, of the root."""
    _, n, _, _ = arguments.sizes
    marginal: Tensor | None = None
    if scores.spans is not None:
        marginal = table.symbols()
        bonus = scores.spans.reshape(-1)[table.cells]
        total.index_add_(0, sentences, _weigh(marginal.sum(1, dtype=torch.float64), bonus))
    lengths = arguments.lengths_on_device
    starts_at_0 = table.cells.div(n + 1, rounding_mode="floor") % (n + 1) == 0
    whole = starts_at_0 if lengths is None else starts_at_0 & (lengths[sentences] == table.width)
    whole = whole if lengths is not None or table.width == n else torch.zeros_like(whole)
    top = whole.nonzero().squeeze(1)
    if len(top):
        marginal = table.symbols() if marginal is None else marginal
        score = scores.root if scores.root.dim() == 1 else scores.root[sentences[top]]
        total.index_add_(0, sentences[top], _weigh(marginal[top], score).sum(1))


def _weigh(marginal: Tensor, score: Tensor) -> Tensor:
    """Compute marginal · score in float64 with 0 · ∞ = 0."""
    return torch.where(marginal > 0, marginal.double() * score.double(), 0.0)


class _full_precision_products:
    """A context in which float32 matrix products have full precision, whatever the precision of the chart."""

    def __enter__(self) -> None:
        self.before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False

    def __exit__(self, *_: object) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self.before
