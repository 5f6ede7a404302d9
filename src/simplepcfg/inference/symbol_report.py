"""Records about a grammar's symbols, which become a table or JSON."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

Weighted = tuple[str, float]


class Child(NamedTuple):
    """A likely child on one side of a nonterminal; a preterminal with its likeliest word."""

    symbol: str
    probability: float
    word: str | None = None


@dataclass(frozen=True, slots=True)
class SymbolUse:
    """One symbol: expected uses, its share of all, likeliest children (of nonterminals) and words, examples."""

    symbol: str
    uses: float
    share: float
    left: list[Child]
    right: list[Child]
    words: list[Weighted]  # that it covers, with their share; of a preterminal, that it emits, with their probability
    examples: list[Weighted]  # spans of the text with their marginal
    label: Weighted | None = None  # of gold trees, the most frequent label and its share of the symbol's constituents

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON, every number with its name."""
        return {
            "symbol": self.symbol,
            "uses": self.uses,
            "share": self.share,
            "left": [child._asdict() for child in self.left],
            "right": [child._asdict() for child in self.right],
            "words": [{"word": word, "share": share} for word, share in self.words],
            "label": None if self.label is None else {"label": self.label[0], "share": self.label[1]},
            "examples": [{"words": text, "posterior": posterior} for text, posterior in self.examples],
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """Measures of how many symbols are really used."""

    symbols: int
    perplexity: float  # of the shares: as if so many were used alike
    covering: int  # the fewest that have 99 % of all uses
    used: int  # with one expected use or more


@dataclass(frozen=True, slots=True)
class SymbolReport:
    """The content of `simplepcfg show`; the most used symbols first."""

    run: str
    source: str  # where uses were counted
    sentences: int | None  # None where they are expectations of 1,000 sentences that the grammar itself makes
    nonterminal_usage: Usage
    preterminal_usage: Usage
    nonterminals: list[SymbolUse]
    preterminals: list[SymbolUse]

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        symbols = {kind: [use.to_dict() for use in getattr(self, kind)] for kind in ("nonterminals", "preterminals")}
        return {
            "run": self.run,
            "source": self.source,
            "sentences": self.sentences,
            "nonterminal_usage": asdict(self.nonterminal_usage),
            "preterminal_usage": asdict(self.preterminal_usage),
            **symbols,
        }
