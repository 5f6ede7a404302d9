"""Trees with a run's symbols over original words: the most probable, the k best, and random ones.

Symbols have no names but numbers: nonterminal 12 is `NT-12`, preterminal 5 is `T-5`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import torch

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.trees import PHRASE_LABEL, SpanTree
from simplepcfg.data.vocabulary import EOS
from simplepcfg.errors import InputError, require_whole
from simplepcfg.grammars import HiddenMarkovModel
from simplepcfg.grammars.sampling import SampledSentences
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.marginals import Bonus, no_bonus
from simplepcfg.inference.sentences import original_tree
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.trees import LabelledTree
from simplepcfg.runs.device import seeded

NO_TREE = LabelledTree([], [], [], -math.inf)
# Limits of how many random sentences are drawn at a time: enough to share a step, few enough to hold in memory.
SENTENCES_AT_ONCE = 4096
TOKENS_AT_ONCE = 1 << 20
# A compound model makes a grammar for each sentence, so that fewer are drawn at a time.
GRAMMARS_AT_ONCE = 16
MAX_TREES = 10_000  # of one sentence; all are held in memory
MAX_TRIES = 100  # average number of draws for one sentence that is not too long


@dataclass(frozen=True, slots=True)
class ScoredTree:
    """A tree and the natural log-probability of words and tree; -inf for a placeholder."""

    tree: SpanTree
    log_probability: float

    def _repr_svg_(self) -> str:
        """Draw the tree in notebooks."""
        return self.tree.to_svg()


@dataclass(frozen=True, slots=True)
class SampledText:
    """Random sentences of a run."""

    trees: list[ScoredTree]  # with the words as the model knows them: prepared, `<unk>` among them, up to any `<eos>`
    # The probability of a sentence that is not too long, given which all were drawn; of a compound model an estimate.
    kept: float


def viterbi_trees(run: TrainedModel, prepared: list[Prepared], bonus: Bonus) -> list[SpanTree]:
    """Return the most probable tree of each sentence with its symbols; see ``Run.parse``."""
    trees = most_probable_trees(run, [item.tokens for item in prepared], bonus)
    return list(map(labelled_tree, prepared, trees))


def most_probable_trees(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = no_bonus
) -> list[LabelledTree]:
    """Return the most probable tree of each sentence of tokens; ``NO_TREE`` for fewer than two."""

    def compute(batch: Batch) -> list[LabelledTree]:
        return run.grammar_of(batch).viterbi(batch.words, batch.lengths, span_bonus=bonus(batch)).to_list()

    return in_batches(run, sentences, compute, lambda: NO_TREE)


def k_best_trees(run: TrainedModel, prepared: list[Prepared], bonus: Bonus, k: int) -> list[list[ScoredTree]]:
    """Return the k most probable trees of each sentence; see ``Run.k_best``."""
    _check_trees("k", k)

    def compute(batch: Batch) -> list[list[LabelledTree]]:
        return run.grammar_of(batch).k_best(batch.words, batch.lengths, k=k, span_bonus=bonus(batch))

    answers = in_batches(run, [item.tokens for item in prepared], compute, lambda: [NO_TREE])
    return _over_words(run, prepared, [trees or [NO_TREE] for trees in answers])


def _check_trees(name: str, count: int) -> None:
    if not isinstance(count, Integral) or not 1 <= count <= MAX_TREES:
        raise InputError(f"{name} = {count!r}; ask for 1 to {MAX_TREES:,} trees a sentence")


def _over_words(
    run: TrainedModel, prepared: list[Prepared], answers: Sequence[Sequence[LabelledTree]]
) -> list[list[ScoredTree]]:
    """Return the trees over the original words; their log-probability counts spellings, as that of the sentence."""
    spelled = (run.spellings_log_probability(item.tokens) for item in prepared)
    return [
        [ScoredTree(labelled_tree(item, tree), tree.log_probability + spelling) for tree in trees]
        for item, trees, spelling in zip(prepared, answers, spelled, strict=True)
    ]


def sampled_trees(
    run: TrainedModel, prepared: list[Prepared], bonus: Bonus, samples: int, seed: int
) -> list[list[ScoredTree]]:
    """Return random trees of each sentence; see ``Run.sample_trees``."""
    _check_trees("samples", samples)
    generator = seeded(run.device, seed)

    def compute(batch: Batch) -> list[list[LabelledTree]]:
        drawn = run.grammar_of(batch).sample_trees(
            batch.words, batch.lengths, samples=samples, generator=generator, span_bonus=bonus(batch)
        )
        return drawn.to_list()

    answers = in_batches(run, [item.tokens for item in prepared], compute, lambda: [NO_TREE] * samples)
    return _over_words(run, prepared, answers)


def sample_blocks(
    run: TrainedModel, count: int, max_length: int, temperature: float, seed: int
) -> Iterator[SampledText]:
    """Yield blocks of random sentences; see ``Run.sample_blocks``."""
    generator = seeded(run.device, seed)
    require_whole("count", count, 1)
    require_whole("max_length", max_length, 1)
    at_once = min(SENTENCES_AT_ONCE, max(1, TOKENS_AT_ONCE // max(max_length, 1)))
    if not run.shares_rules:
        draw, at_once = _sample_compound, GRAMMARS_AT_ONCE
    elif isinstance(run.grammar, HiddenMarkovModel):
        draw = _sample_chains
    else:
        draw = _sample_sentences
    for first in range(0, count, at_once):
        yield draw(run, min(at_once, count - first), max_length, temperature, generator)


@without_modes
def _sample_sentences(
    run: TrainedModel, count: int, max_length: int, temperature: float, generator: torch.Generator
) -> SampledText:
    drawn = run.grammar.sample(count, max_length=max_length, temperature=temperature, generator=generator)
    return SampledText(_drawn_trees(run, drawn), math.exp(drawn.log_kept))


@without_modes
def _sample_compound(
    run: TrainedModel, count: int, max_length: int, temperature: float, generator: torch.Generator
) -> SampledText:
    """Draw a vector z from the prior for each sentence, and the sentence from the grammar of z.

    Given that a sentence is not too long, a z comes as often as its grammar makes such sentences: it is kept with that
    probability, and another is drawn else. The mean of these probabilities is the estimate of the limit's own.
    """
    trees: list[ScoredTree] = []
    shares = tries = 0.0
    while len(trees) < count:
        grammar = run.model.random_grammar(generator)  # type: ignore[operator]
        drawn = grammar.sample(1, max_length=max_length, temperature=temperature, generator=generator)
        share = math.exp(drawn.log_kept)
        shares, tries = shares + share, tries + 1
        if tries >= MAX_TRIES and shares < tries / MAX_TRIES:
            raise InputError(
                f"sentences of at most {max_length} words have {shares / tries:.2g} of the probability, too little to "
                "draw any in good time; give a larger max_length"
            )
        if float(torch.rand((), generator=generator, device=generator.device, dtype=torch.float32)) < share:
            trees += _drawn_trees(run, drawn)
    return SampledText(trees, shares / tries)


def _drawn_trees(run: TrainedModel, drawn: SampledSentences) -> list[ScoredTree]:
    """Return trees over the drawn words before the first `<eos>`, which ends a sentence and is not shown."""
    end = run.vocabulary.encode([EOS])[0] if run.preprocessing.eos and EOS in run.vocabulary else None
    lengths = drawn.lengths.tolist()
    ids = drawn.words[:, : max(lengths)].tolist()
    trees = []
    for row, length, tree in zip(ids, lengths, drawn.trees.to_list(), strict=True):
        words = run.vocabulary.decode(row[: row.index(end) if end in row else length])
        shown = labelled_tree(Prepared(words, words, list(range(len(words)))), tree)
        trees.append(ScoredTree(shown, tree.log_probability))
    return trees


@without_modes
def _sample_chains(
    run: TrainedModel, count: int, max_length: int, temperature: float, generator: torch.Generator
) -> SampledText:
    """Draw sentences of a hidden Markov model as flat trees, tagged by states; the final `<eos>` is not shown."""
    (end,) = run.vocabulary.encode([EOS])
    model = run.grammar
    assert isinstance(model, HiddenMarkovModel)
    drawn = model.sample(count, max_length=max_length, temperature=temperature, generator=generator, end=end)
    columns = (drawn.words, drawn.lengths, drawn.states, drawn.log_probabilities)
    trees = []
    for ids, length, states, score in zip(*(column.tolist() for column in columns), strict=True):
        words = tuple(run.vocabulary.decode(ids[: length - 1]))
        tags = tuple(f"T-{state}" for state in states[: length - 1])
        spans = ((0, length - 1, PHRASE_LABEL),) if words else ()
        trees.append(ScoredTree(SpanTree(words, tags, spans), score))
    return SampledText(trees, math.exp(drawn.log_kept))


def labelled_tree(prepared: Prepared, tree: LabelledTree) -> SpanTree:
    """Return a model's tree over its tokens as a tree over the original words; dropped words have the tag `T`.

    Where there is no tree, all words hang from one `X`.
    """
    spans = [(i, j, f"NT-{label}") for (i, j), label in zip(tree.spans, tree.labels, strict=True)]
    return original_tree(prepared, spans, [f"T-{tag}" for tag in tree.tags])
