"""Description of one symbol by the grammar alone: its likeliest children on either side, and its words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from simplepcfg.data.vocabulary import UNK
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseGrammar, RankGrammar, SimpleGrammar
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.ops.modes import without_modes

LabelledGrammar = SimpleGrammar | DenseGrammar  # those whose symbols can be described
Weighted = tuple[str, float]

WORDS_AT_ONCE = 256
WORDS_KEPT = 20
# Words below a nonterminal are expected over derivations of up to this depth; what lies deeper weighs little.
DEPTH = 32

_NAME = re.compile(r"(NT|T)-([0-9]{1,9})")


class Child(NamedTuple):
    """A likely child on one side of a nonterminal; a preterminal with its likeliest word."""

    symbol: str
    probability: float
    word: str | None = None


@dataclass(frozen=True, slots=True)
class SymbolDescription:
    """A symbol's likeliest children (of a nonterminal) and words.

    Of a preterminal these are the words that it emits, with their probabilities; of a nonterminal those expected below
    it, with their share.
    """

    symbol: str
    left: list[Child]
    right: list[Child]
    words: list[Weighted]


class SymbolGuide:
    """The words of all preterminals, found in one pass over the vocabulary; then any symbol is described at once."""

    def __init__(self, run: TrainedModel) -> None:
        self._vocabulary = run.vocabulary.words
        left, right = child_probabilities(shown_grammar(run))
        self._left, self._right = left.detach().cpu(), right.detach().cpu()
        self._shares, self._ids = _likeliest_words(run)  # [P, WORDS_KEPT] each

    @without_modes
    def describe(self, symbol: str, most: int = 10) -> SymbolDescription:
        """Describe one symbol by its name, such as NT-12 or T-5."""
        index = self._index(symbol)
        if index is None:
            raise InputError(
                f"symbol {symbol!r} is not in this grammar; take one of NT-0 to NT-{len(self._left) - 1} or T-0 to "
                f"T-{len(self._shares) - 1}"
            )
        if symbol.startswith("T-"):
            return SymbolDescription(symbol, [], [], self.words(index, most))
        return SymbolDescription(symbol, *self.children(index), self._below(index, most))

    def name(self, symbol: str) -> str:
        """Return typical words of a symbol, by which a reader can tell it from others; another text as it is.

        Of a preterminal these are its two likeliest words, `man/woman`; of a nonterminal the likeliest word at each end
        of what lies below it, `with … day`.
        """
        index = self._index(symbol)
        if index is None:
            return symbol
        if symbol.startswith("T-"):
            return "/".join([word for word, _ in self.words(index, 3) if word != UNK][:2]) or symbol
        return f"{self._outermost(self._left, index)} … {self._outermost(self._right, index)}"

    def _index(self, symbol: str) -> int | None:
        """Return the number in the name of a symbol of this grammar; None for another text."""
        match = _NAME.fullmatch(str(symbol))
        count = 0 if match is None else len(self._left if match[1] == "NT" else self._shares)
        return int(match[2]) if match is not None and int(match[2]) < count else None

    def _outermost(self, rules: Tensor, symbol: int) -> str:
        """Follow the likeliest child of one side down to a preterminal, and return its likeliest word."""
        states, seen = len(rules), set()
        while symbol not in seen:
            seen.add(symbol)
            child = int(rules[symbol].argmax())
            if child >= states:
                break
            symbol = child
        tag = int(rules[symbol, states:].argmax())  # at the end of a circle too
        return next((word for word, _ in self.words(tag, 2) if word != UNK), UNK)

    def words(self, tag: int, most: int) -> list[Weighted]:
        """Return the likeliest words of a preterminal, at most 20, with their probabilities."""
        pairs = zip(self._ids[tag, :most].tolist(), self._shares[tag, :most].tolist(), strict=True)
        return [(self._vocabulary[word], share) for word, share in pairs if share > 0]

    def children(self, symbol: int) -> tuple[list[Child], list[Child]]:
        """Return the likeliest left and right children of a nonterminal; a preterminal has its likeliest word."""
        return self._likeliest(self._left[symbol]), self._likeliest(self._right[symbol])

    def _likeliest(self, rules: Tensor, most: int = 5) -> list[Child]:
        states = self._left.shape[0]
        values, indices = rules.topk(min(most, len(rules)))
        return [
            Child(f"NT-{k}", value)
            if k < states
            else Child(f"T-{k - states}", value, self._vocabulary[int(self._ids[k - states, 0])])
            for value, k in zip(values.tolist(), indices.tolist(), strict=True)
            if value > 0
        ]

    def _below(self, symbol: int, most: int) -> list[Weighted]:
        """Return the expected words under a nonterminal, of each preterminal its likeliest words alone."""
        states = self._left.shape[0]
        children = (self._left + self._right).double()  # [N, N + P]
        layer = torch.zeros(states, dtype=torch.float64)
        layer[symbol] = 1.0
        tags = torch.zeros(children.shape[1] - states, dtype=torch.float64)
        for _ in range(DEPTH):
            tags += layer @ children[:, states:]
            layer = layer @ children[:, :states]
            if float(layer.sum()) < 1e-6:
                break
        weights = (tags / tags.sum())[:, None] * self._shares.double()
        total = torch.zeros(len(self._vocabulary), dtype=torch.float64)
        total.index_add_(0, self._ids.flatten(), weights.flatten())
        values, ids = total.topk(min(most, len(total)))
        pairs = zip(ids.tolist(), values.tolist(), strict=True)
        return [(self._vocabulary[word], share) for word, share in pairs if share > 0]


@without_modes
def _likeliest_words(run: TrainedModel) -> tuple[Tensor, Tensor]:
    """Return probabilities and ids of each preterminal's likeliest words, [P, words] each; P × V is never held."""
    ids = torch.arange(1, len(run.vocabulary), device=run.device)  # 0 is padding
    best: tuple[Tensor, Tensor] | None = None
    with torch.no_grad():
        for chunk in ids.split(WORDS_AT_ONCE):
            scores = run.grammar.emissions.log_probabilities(chunk[None])[0].float().T  # [P, words]
            where = chunk.expand_as(scores)
            if best is not None:
                scores, where = torch.cat([best[0], scores], 1), torch.cat([best[1], where], 1)
            values, order = scores.topk(min(WORDS_KEPT, scores.shape[1]), 1)
            best = values, where.gather(1, order)
    assert best is not None
    return best[0].exp().cpu(), best[1].cpu()


def shown_grammar(run: TrainedModel) -> LabelledGrammar:
    """Return the grammar whose symbols can be counted: of a rank model the one with all its rules, if small enough."""
    grammar = run.grammar
    if isinstance(grammar, RankGrammar):
        return grammar.to_dense()
    if not isinstance(grammar, SimpleGrammar | DenseGrammar):
        raise InputError(
            f"{run.name}: a model of kind {run.config.model.kind} has no constituents whose symbols could be shown; "
            "use an sn-pcfg"
        )
    return grammar


def child_probabilities(grammar: LabelledGrammar) -> tuple[Tensor, Tensor]:
    """Return P(left child given parent) and P(right child given parent), [N, N + P] each."""
    if isinstance(grammar, DenseGrammar):
        return grammar.rules.sum(-1), grammar.rules.sum(-2)
    return grammar.left, grammar.right
