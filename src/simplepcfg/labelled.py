"""Trees with a run's own symbols over original words: the best ones, the k best, and random sentences.

Symbols have no names but numbers: nonterminal 12 is `NT-12`, preterminal 5 is `T-5`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from simplepcfg.beliefs import Bonus, Words
from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.trees import PHRASE_LABEL, WORD_LABEL, SpanTree
from simplepcfg.data.vocabulary import EOS
from simplepcfg.errors import InputError
from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.sentences import original_tree

if TYPE_CHECKING:
    from simplepcfg.run import Run

NO_TREE = LabelledTree([], [], [], -math.inf)


@dataclass(frozen=True, slots=True)
class ScoredTree:
    """A tree and the natural log-probability of the words with it; -inf where it only stands in for one."""

    tree: SpanTree
    log_probability: float


@dataclass(frozen=True, slots=True)
class SampledText:
    """Random sentences of a run."""

    trees: list[ScoredTree]  # with the words as the model knows them: prepared, `<unk>` among them
    kept: float  # the probability of a sentence that is not too long: what the rest was drawn given


def best_trees(run: Run, prepared: Words, bonus: Bonus) -> list[SpanTree]:
    """The most probable tree of each sentence with its symbols; see ``Run.parse``."""

    def compute(batch: Batch) -> list[LabelledTree]:
        return run.grammar_of(batch).viterbi(batch.words, batch.lengths, span_bonus=bonus(batch)).listed()

    with torch.no_grad():
        found = run.in_batches([item.tokens for _, item in prepared], compute, lambda: NO_TREE)
    return [labelled_tree(words, item, tree) for (words, item), tree in zip(prepared, found, strict=True)]


def k_best_trees(run: Run, prepared: Words, k: int, bonus: Bonus) -> list[list[ScoredTree]]:
    """See ``Run.k_best``."""
    if k < 1:
        raise InputError(f"k = {k}; ask for at least one tree")

    def compute(batch: Batch) -> list[list[LabelledTree]]:
        return run.grammar_of(batch).k_best(batch.words, batch.lengths, k=k, span_bonus=bonus(batch))

    with torch.no_grad():
        found = run.in_batches([item.tokens for _, item in prepared], compute, lambda: [NO_TREE])
    return _over_words(prepared, [trees or [NO_TREE] for trees in found])


def _over_words(prepared: Words, found: Sequence[Sequence[LabelledTree]]) -> list[list[ScoredTree]]:
    return [
        [ScoredTree(labelled_tree(words, item, tree), tree.log_probability) for tree in trees]
        for (words, item), trees in zip(prepared, found, strict=True)
    ]


def sampled_trees(run: Run, prepared: Words, samples: int, seed: int, bonus: Bonus) -> list[list[ScoredTree]]:
    """See ``Run.sample_trees``."""
    if samples < 1:
        raise InputError(f"samples = {samples}; ask for at least one tree a sentence")
    generator = seeded(run.device, seed)

    def compute(batch: Batch) -> list[list[LabelledTree]]:
        given = {"samples": samples, "generator": generator, "span_bonus": bonus(batch)}
        return run.grammar_of(batch).sample_trees(batch.words, batch.lengths, **given).listed()

    with torch.no_grad():
        found = run.in_batches([item.tokens for _, item in prepared], compute, lambda: [NO_TREE] * samples)
    return _over_words(prepared, found)


def seeded(device: torch.device, seed: int) -> torch.Generator:
    """A generator of its own for one question."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed = {seed}; give one from 0 to 2^63 - 1")
    return torch.Generator(device).manual_seed(seed)


def sample_text(run: Run, count: int, max_length: int, temperature: float, seed: int) -> SampledText:
    """See ``Run.sample``."""
    generator = seeded(run.device, seed)
    if isinstance(run.grammar, HiddenMarkovModel):
        return _sample_chains(run, run.grammar, count, max_length, temperature, generator)
    drawn = run.grammar.sample(count, max_length=max_length, temperature=temperature, generator=generator)
    trees = []
    for ids, length, tree in zip(drawn.words.tolist(), drawn.lengths.tolist(), drawn.trees.listed(), strict=True):
        words = run.vocabulary.decode(ids[:length])
        whole = Prepared(words, list(range(length)))
        trees.append(ScoredTree(labelled_tree(words, whole, tree), tree.log_probability))
    return SampledText(trees, math.exp(drawn.log_kept))


def _sample_chains(
    run: Run, chain: HiddenMarkovModel, count: int, max_length: int, temperature: float, generator: torch.Generator
) -> SampledText:
    """Sentences of a hidden Markov model, ended by `<eos>`: flat trees, whose tags are the states."""
    (end,) = run.vocabulary.encode([EOS])
    drawn = chain.sample(count, max_length=max_length, temperature=temperature, generator=generator, end=end)
    columns = (drawn.words, drawn.lengths, drawn.states, drawn.log_probabilities)
    trees = []
    for ids, length, states, score in zip(*(column.tolist() for column in columns), strict=True):
        words = tuple(run.vocabulary.decode(ids[:length]))
        tags = tuple(f"T-{state}" for state in states[:length])
        trees.append(ScoredTree(SpanTree(words, tags, ((0, length, PHRASE_LABEL),)), score))
    return SampledText(trees, math.exp(drawn.log_kept))


def labelled_tree(words: Sequence[str], prepared: Prepared, tree: LabelledTree) -> SpanTree:
    """A model's tree over its tokens as a tree over the original words; words that it did not see are plain `T`.

    Where an added `<eos>` is cut off, a span that then covers the same words as one below it goes, and the lower one's
    symbol stays. Where there is no tree, all words hang from one `X`.
    """
    if not tree.labels:
        return original_tree(words, prepared, [])
    kept = prepared.kept
    n = len(kept)
    labels: dict[tuple[int, int], str] = {}
    for (i, j), label in zip(tree.spans, tree.labels, strict=True):  # parents first: the lower one's label is last
        if min(j, n) - i >= 2:
            labels[i, min(j, n)] = f"NT-{label}"
    tags = [WORD_LABEL] * len(words)
    for index, tag in zip(kept, tree.tags, strict=False):
        tags[index] = f"T-{tag}"
    spans = [
        (0, len(words), label) if (i, j) == (0, n) else (kept[i], kept[j - 1] + 1, label)
        for (i, j), label in labels.items()
    ]
    spans.sort(key=lambda span: (span[0], -span[1]))
    return SpanTree(tuple(words), tuple(tags), tuple(spans) or ((0, len(words), PHRASE_LABEL),))
