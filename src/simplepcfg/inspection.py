"""What a grammar has learned: how much each symbol is used, for what, and over which words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.errors import InputError
from simplepcfg.grammars.posteriors import rules_of
from simplepcfg.ops.inside.arguments import check_arguments
from simplepcfg.ops.marginals import outside_rows
from simplepcfg.sentences import Sentence

if TYPE_CHECKING:
    from simplepcfg.run import Run

# The run's own text is looked at as far as this, and of sentences that the grammar itself makes, so many are expected;
# a text that the caller gives is counted to its end.
OWN_SENTENCES = 1000
# Left-to-right sums over ever deeper derivations stop here; grammars that need more have no finite expectation.
MOST_ROUNDS = 5000
COVERED = 0.99
WORDS_AT_ONCE = 256

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
    examples: list[Weighted]  # spans of the text with their posterior

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, every number with its name."""
        return {
            "symbol": self.symbol,
            "uses": self.uses,
            "share": self.share,
            "left": [child._asdict() for child in self.left],
            "right": [child._asdict() for child in self.right],
            "words": [{"word": word, "share": share} for word, share in self.words],
            "examples": [{"words": text, "posterior": posterior} for text, posterior in self.examples],
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """How many of the symbols are really used."""

    symbols: int
    perplexity: float  # of the shares: as if so many were used alike
    covering: int  # the fewest that have 99 % of all uses
    at_least: float
    used: int  # with at least that many expected uses


@dataclass(frozen=True, slots=True)
class SymbolReport:
    """What `simplepcfg show` prints; the most used symbols first."""

    run: str
    source: str  # where uses were counted
    sentences: int | None  # None where they are expectations of 1,000 sentences that the grammar itself makes
    nonterminal_usage: Usage
    preterminal_usage: Usage
    nonterminals: list[SymbolUse]
    preterminals: list[SymbolUse]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        symbols = {kind: [use.to_dict() for use in getattr(self, kind)] for kind in ("nonterminals", "preterminals")}
        return {
            "run": self.run,
            "source": self.source,
            "sentences": self.sentences,
            "nonterminal_usage": asdict(self.nonterminal_usage),
            "preterminal_usage": asdict(self.preterminal_usage),
            **symbols,
        }


def describe_symbols(
    run: Run, sentences: Iterable[Sentence] | None = None, *, top: int = 20, least: float = 1.0, source: str = "text"
) -> SymbolReport:
    """The `top` most used symbols of either kind, by expected uses over all derivations of the sentences.

    Without sentences: of the run's validation or training text, if its file is still there (the first 1,000
    sentences); else of 1,000 sentences that the grammar itself makes, in expectation.
    """
    if top < 1:
        raise InputError(f"top = {top}; ask for at least one symbol")
    if not hasattr(run.grammar, "left"):
        raise InputError(
            f"{run.name}: a model of kind {run.config.model.kind} has no left and right rules to show; use an sn-pcfg"
        )
    tokens: list[list[str]] | None
    if sentences is not None:
        tokens = [item.tokens for _, item in run.prepare(sentences)]
    else:
        tokens, source = _own_text(run)
    if tokens is not None and not any(len(sentence) >= 2 for sentence in tokens):
        raise InputError(f"{source}: no sentence has two words or more to count on; give longer ones")
    if tokens is not None:
        nonterminals, preterminals = _uses_in(run, tokens)
    else:
        nonterminals, preterminals = (OWN_SENTENCES * uses for uses in expected_uses(run.grammar))
    chosen = nonterminals.topk(min(top, len(nonterminals))).indices
    chosen_tags = preterminals.topk(min(top, len(preterminals))).indices
    names = _Names(run, chosen_tags)
    if tokens is None:
        found: list[tuple[list[Weighted], list[Weighted]]] = [([], []) for _ in chosen.tolist()]
    else:
        found = _words_and_examples(run, tokens, chosen)
    left, right = run.grammar.left, run.grammar.right
    return SymbolReport(
        run.name,
        source,
        None if tokens is None else sum(len(sentence) >= 2 for sentence in tokens),
        _usage(nonterminals, least),
        _usage(preterminals, least),
        [
            SymbolUse(
                f"NT-{symbol}",
                float(nonterminals[symbol]),
                float(nonterminals[symbol] / nonterminals.sum()),
                names.children(left[symbol]),
                names.children(right[symbol]),
                words,
                examples,
            )
            for symbol, (words, examples) in zip(chosen.tolist(), found, strict=True)
        ],
        [
            SymbolUse(
                f"T-{tag}",
                float(preterminals[tag]),
                float(preterminals[tag] / preterminals.sum()),
                [],
                [],
                names.emitted[k],
                [],
            )
            for k, tag in enumerate(chosen_tags.tolist())
        ],
    )


def expected_uses(grammar: Any) -> tuple[Tensor, Tensor]:
    """Expected uses of each nonterminal and preterminal in one sentence that the grammar makes: [N], [P] in float64.

    uses = root + uses · (left + right), summed over ever deeper derivations until nothing is added.
    """
    states = grammar.root.shape[-1]
    left, right = (rules.detach().double() for rules in (grammar.left, grammar.right))
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


def _own_text(run: Run) -> tuple[list[list[str]] | None, str]:
    from simplepcfg.training.corpus import read_tokens

    for name in (run.config.data.valid, run.config.data.train):
        if name is not None and name != "-" and Path(name).is_file():
            return read_tokens(name, run.preprocessing)[:OWN_SENTENCES], name
    return None, "the grammar itself"


def _uses_in(run: Run, tokens: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    grammar = run.grammar
    states = grammar.root.shape[-1]
    uses = [torch.zeros(size, dtype=torch.float64) for size in (states, grammar.left.shape[-1] - states)]

    def compute(batch: Batch) -> list[None]:
        with torch.no_grad():
            counts = grammar.rule_counts(batch.words, batch.lengths)
        uses[0] += counts.parents.double().cpu()
        uses[1] += counts.preterminals.double().cpu()
        return [None] * len(batch)

    run.in_batches(tokens, compute, lambda: None)
    if not float(uses[0].sum()) > 0:
        raise InputError(f"{run.name} gives no sentence of this text a tree; give another text to count on")
    return uses[0], uses[1]


def _usage(uses: Tensor, least: float) -> Usage:
    share = uses / uses.sum()
    entropy = -torch.special.xlogy(share, share).sum()
    falling = share.sort(descending=True).values.cumsum(0)
    covering = int((falling < COVERED).sum()) + 1
    return Usage(len(uses), float(entropy.exp()), min(covering, len(uses)), least, int((uses >= least).sum()))


def _words_and_examples(
    run: Run, tokens: Sequence[Sequence[str]], chosen: Tensor, most: int = 5
) -> list[tuple[list[Weighted], list[Weighted]]]:
    """For each chosen nonterminal: words below it with their share, and the surest spans of different words."""
    grammar = run.grammar
    below = torch.zeros(len(run.vocabulary), len(chosen), dtype=torch.float64)
    examples: list[dict[str, float]] = [{} for _ in chosen.tolist()]
    scored = [sentence for sentence in tokens if len(sentence) >= 2]
    picked = chosen.to(run.device)

    def compute(batch: Batch) -> list[None]:
        n = batch.words.shape[1]
        with torch.no_grad():
            given = check_arguments(
                *rules_of(grammar, batch.words, batch.lengths), batch.lengths, None, grammar.precision
            )
            _, tables = outside_rows(given, grammar.backend)
            # Posteriors where a span begins, less those where one ends: summed up, what lies over each word.
            steps = torch.zeros(len(batch) * (n + 1), len(chosen), dtype=torch.float64, device=run.device)
            surest: list[tuple[Tensor, Tensor]] = []
            for table in tables:
                if table.outside is None:
                    continue
                share = table.outside[:, picked].float() * table.inside[:, picked].float()
                start, end = table.cells.div(n + 1, rounding_mode="floor"), table.cells % (n + 1)
                sentence = start.div(n + 1, rounding_mode="floor")
                steps.index_add_(0, start, share.double())
                steps.index_add_(0, sentence * (n + 1) + end, share.double().neg_())
                values, rows = share.topk(min(most, len(share)), 0)
                surest.append((values, table.cells[rows]))
            over = steps.view(len(batch), n + 1, -1).cumsum(1)[:, :n].cpu()
            below.index_add_(0, batch.words.flatten().cpu(), over.flatten(0, 1))
            values, places = (torch.cat(parts) for parts in zip(*surest, strict=True))  # [candidates, chosen]
            values, order = values.topk(min(4 * most, len(values)), 0)
            places = places.gather(0, order)
        for k, (column, cells) in enumerate(zip(values.T.tolist(), places.T.tolist(), strict=True)):
            for value, cell in zip(column, cells, strict=True):
                b, i, j = cell // (n + 1) ** 2, cell // (n + 1) % (n + 1), cell % (n + 1)
                if value > 0:
                    text = " ".join(scored[batch.indices[b]][i:j])
                    examples[k][text] = max(value, examples[k].get(text, 0.0))
            best = sorted(examples[k].items(), key=lambda item: -item[1])[:most]
            examples[k] = dict(best)
        return [None] * len(batch)

    run.in_batches(tokens, compute, lambda: None)
    below[0] = 0.0  # padding
    return [
        (_top_words(run, below[:, k] / below[:, k].sum().clamp(min=math.ulp(0.0)), most), list(examples[k].items()))
        for k in range(len(chosen))
    ]


def _top_words(run: Run, shares: Tensor, most: int = 5) -> list[Weighted]:
    values, ids = shares.topk(min(most, len(shares)))
    words = run.vocabulary.words
    return [(words[i], value) for value, i in zip(values.tolist(), ids.tolist(), strict=True) if value > 0]


class _Names:
    """Words of preterminals, from one pass over the vocabulary; nothing of size P × V is held."""

    def __init__(self, run: Run, tags: Tensor) -> None:
        vocabulary = run.vocabulary.words
        chosen = tags.to(run.device)
        ids = torch.arange(1, len(vocabulary), device=run.device)
        best: Tensor | None = None
        parts = []
        with torch.no_grad():
            for chunk in ids.split(WORDS_AT_ONCE):
                scores = run.grammar.emissions.log_probabilities(chunk[None])[0]  # [words, P]
                parts.append(scores[:, chosen].exp().cpu())
                value, where = scores.max(0)
                here = torch.stack([value.double(), chunk[where].double()])
                best = here if best is None else torch.where(here[0] > best[0], here, best)
        assert best is not None
        self.first_word = [vocabulary[i] for i in best[1].long().tolist()]
        table = torch.cat([torch.zeros(1, len(tags)), *parts])  # row 0 is padding
        self.emitted = [_top_words(run, table[:, k], 10) for k in range(len(tags))]

    def children(self, rules: Tensor, most: int = 5) -> list[Child]:
        """The likeliest of one parent's children on one side; a preterminal with its likeliest word."""
        states = len(rules) - len(self.first_word)
        values, indices = rules.detach().topk(min(most, len(rules)))
        return [
            Child(f"NT-{k}", value) if k < states else Child(f"T-{k - states}", value, self.first_word[k - states])
            for value, k in zip(values.tolist(), indices.tolist(), strict=True)
            if value > 0
        ]
