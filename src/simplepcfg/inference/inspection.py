"""Symbols of a grammar: how often each is used in a text or in sentences of its own, its children, words and spans."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from glob import glob
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import as_tree
from simplepcfg.errors import InputError, require_whole
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.derivations import most_probable_trees
from simplepcfg.inference.evaluation import labels_of
from simplepcfg.inference.sentences import Sentence, listed
from simplepcfg.inference.symbol_guide import (
    Child,
    LabelledGrammar,
    SymbolGuide,
    Weighted,
    child_probabilities,
    shown_grammar,
)
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.ops.modes import without_modes
from simplepcfg.progress import stage
from simplepcfg.runs.corpus import training_text

# The run's own text is looked at as far as this, and of sentences that the grammar itself makes, so many are expected;
# a text that the caller gives is counted to its end.
OWN_SENTENCES = 1000
# Left-to-right sums over ever deeper derivations stop here; grammars that need more have no finite expectation.
MOST_ROUNDS = 5000
COVERED = 0.99
SHOWN = 5  # words and spans of a symbol


@dataclass(frozen=True, slots=True)
class SymbolUse:
    """One symbol: expected uses, its share of all, likeliest children (of nonterminals) and words, examples."""

    symbol: str
    uses: float
    share: float
    left: list[Child]
    right: list[Child]
    words: list[Weighted]  # below it, with their share; of a preterminal, that it emits, with their probability
    examples: list[tuple[str, int]]  # its most frequent spans of the text, and how often they occur
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
            "examples": [{"words": text, "count": count} for text, count in self.examples],
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
        return {**asdict(self), **symbols}


@stage("counting the uses of symbols")
@without_modes
def describe_symbols(
    run: TrainedModel, sentences: Iterable[Sentence] | None = None, *, top: int = 20, source: str = "text"
) -> SymbolReport:
    """Return the `top` most used nonterminals and preterminals, by expected uses over all derivations of sentences.

    Without sentences: of the run's validation or training text, if its file is still there (the first 1,000
    sentences); else of 1,000 sentences that the grammar itself makes, in expectation. Where all sentences are trees,
    each symbol has the gold label (or tag) that is most frequent where the most probable trees use it.
    """
    require_whole("top", top, 1)
    grammar = shown_grammar(run)
    items = None if sentences is None else listed(sentences)
    tokens: list[list[str]] | None
    if items is None:
        tokens, source = own_text(run)
    else:
        tokens = [item.tokens for item in run.prepare(items)]
    counted: int | None = None
    gold: dict[str, Weighted] = {}
    spans: dict[int, Counter[str]] = defaultdict(Counter)
    if tokens is None:
        nonterminals, preterminals = (OWN_SENTENCES * uses for uses in expected_uses(grammar))
    else:
        counted = sum(len(sentence) >= 2 for sentence in tokens)
        if not counted:
            raise InputError(f"{source}: no sentence has two words or more to count on; give longer ones")
        gold = _gold_labels(run, items or [])
        nonterminals, preterminals = uses_in(run, grammar, tokens)
        spans = spans_of_symbols(run, tokens)
    guide = SymbolGuide(run)

    def most_used(prefix: str, uses: Tensor) -> Iterator[tuple[int, tuple[str, float, float]]]:
        """Yield the number of each symbol, and its name, uses and share."""
        for symbol in uses.topk(min(top, len(uses))).indices.tolist():
            yield symbol, (f"{prefix}-{symbol}", float(uses[symbol]), float(uses[symbol] / uses.sum()))

    return SymbolReport(
        run.name,
        source,
        counted,
        usage(nonterminals),
        usage(preterminals),
        [
            SymbolUse(
                *use,
                *guide.children(symbol),
                _words_of(spans[symbol]),
                spans[symbol].most_common(SHOWN),
                gold.get(use[0]),
            )
            for symbol, use in most_used("NT", nonterminals)
        ],
        [
            SymbolUse(*use, [], [], guide.words(tag, 10), [], gold.get(use[0]))
            for tag, use in most_used("T", preterminals)
        ],
    )


def _gold_labels(run: TrainedModel, items: Sequence[Sentence]) -> dict[str, Weighted]:
    """Return the best gold label of each symbol, and its share among gold constituents; none without trees."""
    trees = [tree for item in items if (tree := as_tree(item)) is not None]
    report = labels_of(run, Treebank(trees, run.preprocessing)) if trees and len(trees) == len(items) else None
    return {} if report is None else {**report.phrases.best(), **(report.tags.best() if report.tags else {})}


def expected_uses(grammar: LabelledGrammar) -> tuple[Tensor, Tensor]:
    """Compute the expected uses of each symbol in one sentence that the grammar makes: [N], [P] in float64.

    uses = root + uses · (left + right), summed over ever deeper derivations until nothing is added.
    """
    states = grammar.root.shape[-1]
    left, right = (rules.detach().double() for rules in child_probabilities(grammar))
    children = left + right  # [N, N + P]
    layer = grammar.root.detach().double()
    total = torch.zeros_like(layer)
    for _ in range(MOST_ROUNDS):
        total += layer
        layer = layer @ children[:, :states]
        if float(layer.sum()) <= 1e-9 * float(total.sum()):
            return total.cpu(), (total @ children[:, states:]).cpu()
        if float(layer.sum()) > 1e12:
            break
    raise InputError("the grammar's own sentences have no finite expected length; give a text to count on")


def own_text(run: TrainedModel) -> tuple[list[list[str]] | None, str]:
    """Return the first sentences of the run's own validation or training text, if it is there, and its name."""
    from simplepcfg.data.tokens import read_tokens

    for source in (run.config.data.valid, training_text(run.config.data)):
        paths = () if source is None else (source,) if isinstance(source, str) else source
        if source and all(p != "-" and (Path(p).is_file() or Path(p).is_dir() or glob(p)) for p in paths):
            tokens = read_tokens(source, run.preprocessing, raw=run.config.data.raw)
            return list(islice(tokens, OWN_SENTENCES)), ", ".join(paths)
    return None, "the grammar itself"


def uses_in(run: TrainedModel, grammar: LabelledGrammar, tokens: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """Compute the expected uses of each symbol over all derivations of a text: [N], [P] in float64."""
    uses = [torch.zeros((), dtype=torch.float64)] * 2

    def compute(batch: Batch) -> list[None]:
        counts = grammar.rule_counts(batch.words, batch.lengths)
        uses[0] = uses[0] + counts.parents.double().cpu()
        uses[1] = uses[1] + counts.preterminals.double().cpu()
        return [None] * len(batch)

    in_batches(run, tokens, compute, lambda: None)
    if not float(uses[0].sum()) > 0:
        raise InputError(f"{run.name} gives no sentence of this text a tree; give another text to count on")
    return uses[0], uses[1]


def usage(uses: Tensor) -> Usage:
    """Measure how evenly symbols are used."""
    share = uses / uses.sum()
    entropy = -torch.special.xlogy(share, share).sum()
    falling = share.sort(descending=True).values.cumsum(0)
    covering = int((falling < COVERED).sum()) + 1
    return Usage(len(uses), float(entropy.exp()), min(covering, len(uses)), int((uses >= 1).sum()))


def spans_of_symbols(run: TrainedModel, tokens: Sequence[Sequence[str]]) -> dict[int, Counter[str]]:
    """Count the spans of each nonterminal in the most probable trees of a text, by their words."""
    spans: dict[int, Counter[str]] = defaultdict(Counter)
    for sentence, tree in zip(tokens, most_probable_trees(run, tokens), strict=True):
        for (i, j), label in zip(tree.spans, tree.labels, strict=True):
            spans[label][" ".join(sentence[i:j])] += 1
    return spans


def _words_of(spans: Counter[str]) -> list[Weighted]:
    """Return the most frequent words of spans, each with its share."""
    words: Counter[str] = Counter()
    for text, count in spans.items():
        for word in text.split(" "):
            words[word] += count
    return [(word, count / words.total()) for word, count in words.most_common(SHOWN)]
