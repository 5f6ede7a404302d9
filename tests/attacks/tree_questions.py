"""What a grammar of trees answers, question for question, beside the shortest program for an ordinary PCFG."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attacks.comparison import Differs, same
from attacks.references import (
    best_bracketing,
    best_scores,
    entropy_of,
    prefix_probabilities,
    tree_score,
    tree_total,
)
from simplepcfg.errors import NumericalError
from simplepcfg.grammars import Grammar
from simplepcfg.grammars.sampling import SampledSentences
from simplepcfg.ops.dense.marginals import DenseRuleCounts
from simplepcfg.ops.trees import LabelledTree

BEST = 3
SAMPLES = 3
LONGEST_SAMPLE = 5
# Probabilities below this may be made of parts that left the range of float64.
LEAST = 1e-280


@dataclass(frozen=True)
class Sentence:
    """One sentence, the logarithms of everything that its trees are made of, and what follows from them."""

    parts: list[Tensor]  # emissions [n, P], root [N], rules [N, S, S], bonus [n + 1, n + 1, N]
    log_z: Tensor
    counts: list[Tensor]  # its derivatives by the parts: expected numbers of uses

    @property
    def logs(self) -> list[np.ndarray]:
        emissions, root, rules, bonus = (part.detach().numpy() for part in self.parts)
        return [emissions, root, rules, bonus[:, :, 0]]

    @property
    def n(self) -> int:
        return len(self.parts[0])


def sentences_of(
    root: Tensor, rules: Tensor, emit: Tensor, words: Tensor, lengths: Tensor, bonus: Tensor | None
) -> list[Sentence]:
    """The answers that can be known by autograd alone."""
    found = []
    for b, n in enumerate(lengths.tolist()):
        own = torch.zeros(n + 1, n + 1, dtype=torch.float64) if bonus is None else bonus[b, : n + 1, : n + 1]
        parts = [emit.log()[:, words[b, :n]].T, root.log(), rules.log(), own[:, :, None].expand(-1, -1, len(root))]
        parts = [part.clone().requires_grad_() for part in parts]
        log_z = tree_total(*parts)
        if log_z.requires_grad:
            counts = list(torch.autograd.grad(log_z, parts, retain_graph=True))
        else:  # a single word
            counts = [torch.zeros_like(part) for part in parts]
        found.append(Sentence(parts, log_z, counts))
    return found


def check_questions(
    grammar: Grammar,
    sentences: list[Sentence],
    words: Tensor,
    lengths: Tensor,
    bonus: Tensor | None,
) -> None:
    """All questions in float64 but those about prefixes, which `check_left_to_right` asks."""
    generator = torch.Generator().manual_seed(1)
    spans = grammar.span_marginals(words, lengths, span_bonus=bonus)
    symbols = grammar.symbol_marginals(words, lengths, span_bonus=bonus)
    tags = grammar.tag_marginals(words, lengths, span_bonus=bonus)
    decoded = grammar.decode(words, lengths, span_bonus=bonus)
    viterbi = grammar.viterbi(words, lengths, span_bonus=bonus).to_list()
    best = grammar.k_best(words, lengths, k=BEST, span_bonus=bonus)
    entropy = grammar.entropy(words, lengths, span_bonus=bonus)
    drawn = grammar.sample_trees(words, lengths, samples=SAMPLES, generator=generator, span_bonus=bonus).to_list()
    _check_rule_counts(grammar.rule_counts(words, lengths, span_bonus=bonus), sentences)
    for b, sentence in enumerate(sentences):
        n, log_z = sentence.n, float(sentence.log_z.detach())
        by_words, _, _, by_symbol = sentence.counts
        by_span = by_symbol.sum(-1)
        same(f"span marginals of {b}", spans[b, : n + 1, : n + 1], by_span)
        same(f"symbol marginals of {b}", symbols[b, : n + 1, : n + 1], by_symbol)
        same(f"tag marginals of {b}", tags[b, :n], by_words)
        if log_z == -math.inf:
            same(f"answers about the impossible sentence {b}", entropy[b], -math.inf)
            if best[b] or any(tree.log_probability > -math.inf for tree in (viterbi[b], *drawn[b])):
                raise Differs(f"sentence {b} has no tree, and got {viterbi[b]}, {best[b]}, {drawn[b]}")
            continue
        same(f"entropy of {b}", entropy[b], entropy_of(sentence.log_z, sentence.parts), 1e-6 * (1 + abs(log_z)))
        _check_best(b, sentence, viterbi[b], best[b])
        for tree in drawn[b]:
            _check_tree(f"a random tree of {b}", tree, sentence)
        forbidden = torch.from_numpy(sentence.logs[3]) == -math.inf
        total = sum(float(by_span[i, j]) for i, j in decoded[b])
        same(f"decoded tree of {b}", total, best_bracketing(by_span.masked_fill(forbidden, -math.inf)), 1e-6)


def _check_rule_counts(found: object, sentences: list[Sentence]) -> None:
    """Of the whole batch, which shares its rules."""
    root, rules = (sum(sentence.counts[k] for sentence in sentences) for k in (1, 2))
    same("counts of root rules", found.root, root)  # type: ignore[attr-defined]
    if isinstance(found, DenseRuleCounts):
        same("counts of rules", found.rules, rules)
    else:
        same("counts of left children", found.left, rules.sum(2))  # type: ignore[attr-defined,union-attr]
        same("counts of right children", found.right, rules.sum(1))  # type: ignore[attr-defined,union-attr]


def _check_best(b: int, sentence: Sentence, viterbi: LabelledTree, best: list[LabelledTree]) -> None:
    scores = best_scores(*sentence.logs, BEST)
    same(f"viterbi of {b}", viterbi.log_probability, scores[0])
    _check_tree(f"viterbi of {b}", viterbi, sentence)
    found = [tree.log_probability for tree in best]
    same(f"k best of {b}", *(torch.tensor(values, dtype=torch.float64) for values in (found, scores)))
    for tree in best:
        _check_tree(f"k best of {b}", tree, sentence)
    if len({(tuple(tree.spans), tuple(tree.labels), tuple(tree.tags)) for tree in best}) < len(best):
        raise Differs(f"k best of {b} has a tree twice")


def _check_tree(what: str, tree: LabelledTree, sentence: Sentence, tolerance: float = 1e-8) -> None:
    """The tree is possible, and has the probability that it says."""
    score = tree_score(tree, *sentence.logs)
    if score == -math.inf:
        raise Differs(f"{what} is impossible: {tree}")
    same(f"log p of {what}", tree.log_probability, score, tolerance)


def check_left_to_right(grammar: Grammar, sentences: list[Sentence], words: Tensor, lengths: Tensor) -> None:
    """Prefixes, next words and new sentences, of grammars whose rows sum to 1.

    Where left corners do not converge, NumericalError is an answer too.
    """
    _check_new_sentences(grammar, sentences[0], torch.Generator().manual_seed(1))
    emit = grammar.emissions.of_words(0, grammar.emissions.vocabulary_size).exp().numpy()  # [V, P]
    expected = []
    for sentence in sentences:
        emissions, root, rules, _ = (np.exp(log) for log in sentence.logs)
        expected.append(prefix_probabilities(emissions, root, rules))
    try:
        prefixes = grammar.prefix_log_probabilities(words, lengths)
        following = grammar.next_word_log_probabilities(words, lengths)
    except NumericalError:
        if all(answer is not None for answer in expected):
            raise Differs("prefix probabilities are refused, though left corners converge") from None
        return
    total = following.exp().sum(-1)
    possible = prefixes.gather(1, lengths[:, None])[:, 0] > -math.inf
    same("next words", total, possible.double(), 1e-5)
    for b, (sentence, answer) in enumerate(zip(sentences, expected, strict=True)):
        if answer is None or min(answer[0]) < LEAST:
            continue
        found = prefixes[b, : sentence.n + 1].exp()
        truth = torch.tensor(answer[0], dtype=torch.float64)
        same(f"prefixes of {b} over their probabilities", found / truth, torch.ones_like(truth), answer[1] + 1e-8)
        if b:
            continue
        emissions, root, rules, _ = (np.exp(log) for log in sentence.logs)
        for word, row in enumerate(emit):
            longer = prefix_probabilities(np.concatenate([emissions, row[None]]), root, rules)
            share = longer[0][-1] / answer[0][-1]  # type: ignore[index]
            same(f"next word {word} of {b}", following[b, word].exp(), share, answer[1] + 1e-8)
        end = math.exp(float(sentence.log_z.detach())) / answer[0][-1]
        same(f"end of {b}", following[b, -1].exp(), end, answer[1] + 1e-8)


def _check_new_sentences(grammar: Grammar, sentence: Sentence, generator: torch.Generator) -> None:
    """What is drawn from the grammar itself is possible; a grammar may have no sentence that is short enough."""
    with contextlib.suppress(NumericalError):
        drawn = grammar.sample(2, max_length=LONGEST_SAMPLE, generator=generator)
        if not isinstance(drawn, SampledSentences):
            raise Differs(f"sample gave {drawn}")
        emit = grammar.emissions.of_words(0, grammar.emissions.vocabulary_size).numpy()
        _, root, rules, _ = sentence.logs
        none = np.zeros((LONGEST_SAMPLE + 1, LONGEST_SAMPLE + 1))
        for tree, words, n in zip(drawn.trees.to_list(), drawn.words.numpy(), drawn.lengths.tolist(), strict=True):
            score = tree_score(tree, emit[words[:n]], root, rules, none)
            same("log p of a random sentence and its tree", tree.log_probability, score)


def check_in_float32(
    grammar: Grammar,
    plain: Grammar,
    sentences: list[Sentence],
    words: Tensor,
    lengths: Tensor,
    bonus: Tensor | None,
    whole: bool,
) -> None:
    """A backend of kernels: its error may be twice that of `plain`, another backend of the same precision."""
    bonus = None if bonus is None else bonus.float()
    counts = [sentence.counts for sentence in sentences]
    expected = {
        "log_partition": [sentence.log_z.detach() for sentence in sentences],
        "span_marginals": [part[3].sum(-1) for part in counts],
        "symbol_marginals": [part[3] for part in counts],
        "tag_marginals": [part[0] for part in counts],
    }
    for name, truths in expected.items():
        found, other = (getattr(each, name)(words, lengths, span_bonus=bonus) for each in (grammar, plain))
        for b, truth in enumerate(truths):
            inner = tuple(slice(0, size) for size in truth.shape)
            error = (other[b][inner].double() - truth).abs().nan_to_num(0.0).max()
            allowed = 2 * float(error) + 1e-5 * (1 + truth.abs().nan_to_num(0.0, 0.0, 0.0))
            same(f"{name} of {b} by {grammar.backend} in float32", found[b][inner], truth, allowed)
    generator = torch.Generator().manual_seed(1)
    trees = grammar.viterbi(words, lengths, span_bonus=bonus).to_list()
    best = grammar.k_best(words, lengths, k=BEST, span_bonus=bonus)
    drawn = grammar.sample_trees(words, lengths, samples=SAMPLES, generator=generator, span_bonus=bonus).to_list()
    in_range = plain.viterbi(words, lengths, span_bonus=bonus).log_probability > -math.inf
    for b, sentence in enumerate(sentences):
        if not in_range[b]:  # no tree, or a rule of it is below the least number of float32 for every backend
            continue
        scores = best_scores(*sentence.logs, BEST)
        rounding = 1e-5 * (1 + abs(scores[0]))
        for what, tree in [("viterbi", trees[b]), *(("k best", tree) for tree in best[b])]:
            _check_tree(f"{what} of {b} in float32", tree, sentence, rounding)
        same(f"viterbi of {b} in float32", trees[b].log_probability, scores[0], rounding)
        same(f"k best of {b} in float32", best[b][0].log_probability, scores[0], rounding)
        for tree in drawn[b]:
            _check_tree(f"a random tree of {b} in float32", tree, sentence, 1e-5 * (1 + abs(tree.log_probability)))
    if whole and bonus is None:
        with contextlib.suppress(NumericalError):
            found, other = (each.prefix_log_probabilities(words, lengths) for each in (grammar, plain))
            same("prefixes in float32", found, other, 1e-4 * (1 + other.abs().nan_to_num(0.0, 0.0, 0.0)))
