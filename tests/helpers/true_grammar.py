"""Exact sentence probabilities under the built-in synthetic grammar, the lower bound of a learned perplexity."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from simplepcfg.data.synthetic_grammar import SyntheticGrammar, the_grammar

# Every derivation of n words is scaled by this factor to the n-th power, about the inverse probability of the rules of
# a word, so that sentences of hundreds of words do not underflow. The logarithm of the factor is subtracted exactly.
GAIN = math.exp(1.2)
CHART_ELEMENTS = 4_000_000


@dataclass(frozen=True, slots=True)
class BinaryForm:
    """The grammar as binary rules, a closure of its unary chains, and word emissions; `K` symbols, `R` rules."""

    start: int
    left: Tensor  # [R] left child of each binary rule
    right: Tensor  # [R]
    spread: Tensor  # [R, K] probability of the rule below each symbol, unary chains included
    emissions: Tensor  # [V + 1, K] probability of the word below each symbol; the last row, unknown words, is 0
    word_ids: dict[str, int]


def true_log_probability(sentences: Sequence[Sequence[str]], grammar: SyntheticGrammar | None = None) -> Tensor:
    """Return the natural log-probability [S] of each sentence, summed over all derivations; −∞ if there is none."""
    form = _binary_form(grammar or the_grammar())
    result = torch.full((len(sentences),), -math.inf, dtype=torch.float64)
    for indices in _buckets(sentences, len(form.left)):
        result[torch.tensor(indices)] = _inside([sentences[index] for index in indices], form)
    return result


def _binary_form(grammar: SyntheticGrammar) -> BinaryForm:
    """Make rules of three and more children binary, and sum chains of unary rules by the closure (I − U)⁻¹."""
    ids = {symbol: index for index, symbol in enumerate([*grammar.rules, *grammar.lexicon])}
    unary: list[tuple[int, int, float]] = []
    binary: list[tuple[int, int, int, float]] = []
    for rules in grammar.rules.values():
        for rule in rules:
            parent, children, probability = ids[rule.parent], [ids[child] for child in rule.children], rule.probability
            if len(children) == 1:
                unary.append((parent, children[0], probability))
                continue
            while len(children) > 2:
                rest = ids.setdefault(f"{rule.parent}|{children[1:]}|{len(ids)}", len(ids))
                binary.append((parent, children[0], rest, probability))
                parent, children, probability = rest, children[1:], 1.0
            binary.append((parent, children[0], children[1], probability))

    symbols = len(ids)
    chains = torch.eye(symbols, dtype=torch.float64)
    for parent, child, probability in unary:
        chains[parent, child] -= probability
    closure = torch.linalg.inv(chains)  # [above, below]

    spread = torch.zeros(len(binary), symbols, dtype=torch.float64)
    for index, (parent, _, _, probability) in enumerate(binary):
        spread[index] = probability * closure[:, parent]
    vocabulary = sorted({word for entry in grammar.lexicon.values() for word in entry})
    word_ids = {word: index for index, word in enumerate(vocabulary)}
    emissions = torch.zeros(len(word_ids) + 1, symbols, dtype=torch.float64)
    for tag, entry in grammar.lexicon.items():
        for word, probability in entry.items():
            emissions[word_ids[word]] += probability * closure[:, ids[tag]]
    left = torch.tensor([rule[1] for rule in binary])
    right = torch.tensor([rule[2] for rule in binary])
    return BinaryForm(ids[grammar.start], left, right, spread, emissions, word_ids)


def _buckets(sentences: Sequence[Sequence[str]], rules: int) -> Iterator[list[int]]:
    """Yield batches of indices of sentences of similar length, small enough for the chart; skip empty sentences."""
    order = sorted((index for index, sentence in enumerate(sentences) if sentence), key=lambda i: len(sentences[i]))
    bucket: list[int] = []
    for index in order:
        if bucket and (len(bucket) + 1) * len(sentences[index]) ** 2 * rules > CHART_ELEMENTS:
            yield bucket
            bucket = []
        bucket.append(index)
    if bucket:
        yield bucket


def _inside(sentences: Sequence[Sequence[str]], form: BinaryForm) -> Tensor:
    """Run the inside algorithm in probability space; the chart holds each span as either child of each rule."""
    batch, longest = len(sentences), len(sentences[-1])
    unknown = len(form.word_ids)
    words = torch.full((batch, longest), unknown)
    for row, sentence in enumerate(sentences):
        words[row, : len(sentence)] = torch.tensor([form.word_ids.get(word, unknown) for word in sentence])
    emissions = form.emissions[words]  # [B, n, K]
    top = emissions.amax(-1, keepdim=True)
    scale = torch.where(top > 0, GAIN / top, 1.0)

    rules = len(form.left)
    as_left = torch.zeros(batch, longest + 1, longest + 1, rules, dtype=torch.float64)  # by start and width
    as_right = torch.zeros_like(as_left)  # by end and width
    beta = emissions * scale
    whole = beta[:, 0, form.start].unsqueeze(1).repeat(1, longest + 1)  # [B, width] inside of spans that start at 0
    for width in range(1, longest + 1):
        if width > 1:
            starts = longest - width + 1
            splits = as_left[:, :starts, 1:width] * as_right[:, width:, 1:width].flip(2)  # [B, starts, splits, R]
            beta = splits.sum(2) @ form.spread  # [B, starts, K]
            whole[:, width] = beta[:, 0, form.start]
        as_left[:, : longest - width + 1, width] = beta[..., form.left]
        as_right[:, width:, width] = beta[..., form.right]

    lengths = torch.tensor([len(sentence) for sentence in sentences])
    log_scale = scale.squeeze(-1).log().cumsum(1).gather(1, lengths[:, None] - 1).squeeze(1)
    return whole.gather(1, lengths[:, None]).squeeze(1).log() - log_scale
