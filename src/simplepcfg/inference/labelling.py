"""Labels of minimum-Bayes-risk trees: the most probable ones of their nodes and words, over all symbols.

A file of labels has P(label | symbol), learned from a treebank. A span's label is the one with the largest sum, over
symbols A, of P(A | sentence, tree) · P(label | A), so that a tree without symbols has labels, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.trees import PHRASE_LABEL, WORD_LABEL, SpanTree, escape_brackets
from simplepcfg.evaluation.symbol_labels import NO_CONSTITUENT, gold_labels
from simplepcfg.evaluation.treebank import Spans, Treebank
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.label_mapping import LabelMapping, Shares, weights_fingerprint
from simplepcfg.inference.marginals import Bonus, Words
from simplepcfg.inference.sentences import original_tree
from simplepcfg.inference.trained_model import TrainedModel

PUNCTUATION_TAG = "PUNCT"  # of dropped words that the treebank of the labels did not have
# A node with this probability of being no constituent is left out. Of 0.3, 0.4 … 0.9, labelled F1 of GUM's development
# trees was best with 0.6 and 0.7.
MOST_PROBABLY = 2 / 3
SMOOTHING = 1.0  # spans with the labels of all symbols together, which every symbol is taken to have had
LEAST_SHARE = 0.005  # of a label that is kept


@dataclass(frozen=True, slots=True)
class LabelledNodes:
    """A binary tree over a sentence's tokens, with the labels of its spans and the tags of its tokens."""

    spans: Spans
    labels: list[str]
    tags: list[str]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """P(label | symbol) as a matrix, [symbols, labels]."""

    names: tuple[str, ...]
    shares: Tensor

    @classmethod
    def of(cls, shares: Shares, prefix: str, symbols: int, device: torch.device) -> LabelTable:
        """Make the matrix of the symbols `prefix`-0, `prefix`-1, …; of those that have no label it has zeros."""
        names = tuple(sorted({label for row in shares.values() for label in row}))
        rows = [[0.0] * len(names) for _ in range(symbols)]
        for symbol, row in shares.items():
            for label, share in row.items():
                rows[int(symbol.removeprefix(f"{prefix}-"))][names.index(label)] = share
        return cls(names, torch.tensor(rows, device=device))

    def best(self, symbols: Tensor, otherwise: str) -> list[str]:
        """Return the likeliest name for each row of probabilities of symbols, another where all are 0."""
        return self._largest(symbols @ self.shares, self.names, otherwise)

    def best_labels(self, symbols: Tensor) -> list[str]:
        """Return the best label of each span, or `NO_CONSTITUENT` where that is probable enough."""
        if NO_CONSTITUENT not in self.names:
            return self.best(symbols, PHRASE_LABEL)
        shares, none = symbols @ self.shares, self.names.index(NO_CONSTITUENT)
        dropped = (shares[:, none] > MOST_PROBABLY * shares.sum(1)).tolist()
        shares[:, none] = 0.0
        best = self._largest(shares, self.names, PHRASE_LABEL)
        return [NO_CONSTITUENT if drop else name for drop, name in zip(dropped, best, strict=True)]

    @staticmethod
    def _largest(shares: Tensor, names: Sequence[str], otherwise: str) -> list[str]:
        if not names:
            return [otherwise] * len(shares)
        values, which = shares.max(1)
        pairs = zip(values.tolist(), which.tolist(), strict=True)
        return [names[index] if value > 0 else otherwise for value, index in pairs]


def labelled_trees(
    run: TrainedModel, prepared: Words, bonus: Bonus, mapping: LabelMapping, *, exact: bool = False
) -> list[SpanTree]:
    """Return the minimum-Bayes-risk tree of each sentence with labels, over its original words.

    Nodes that are most probably no constituents are left out: their children hang from the node above. ``exact`` is
    that of ``Grammar.decode``. A sentence of one word has no tree in the grammar: its tag is what emits the word.
    """

    @cache
    def table(prefix: str, symbols: int) -> LabelTable:
        shares = mapping.phrase_shares if prefix == "NT" else mapping.tag_shares
        return LabelTable.of(shares, prefix, symbols, run.device)

    def compute(batch: Batch) -> list[LabelledNodes]:
        decoded, symbols, words = tree_posteriors(run, batch, bonus(batch), exact=exact)
        phrases, tags = table("NT", symbols[0].shape[1]), table("T", words[0].shape[1])
        return [
            LabelledNodes(spans, phrases.best_labels(nodes), tags.best(leaves, WORD_LABEL))
            for spans, nodes, leaves in zip(decoded, symbols, words, strict=True)
        ]

    def compute_tags(batch: Batch) -> list[LabelledNodes]:
        words = run.grammar_of(batch).log_emissions(batch.words, batch.lengths).softmax(2)
        tags = table("T", words.shape[2])
        return [LabelledNodes([], [], tags.best(leaves, WORD_LABEL)) for leaves in words]

    tokens = [item.tokens for _, item in prepared]
    answers = in_batches(run, tokens, compute, lambda: None)
    single = [item if len(item) == 1 else [] for item in tokens]
    tagged = in_batches(run, single, compute_tags, lambda: None, least=1)
    return [
        original_tree(words, item, []) if nodes is None else _labelled_tree(words, item, nodes, mapping.punctuation)
        for (words, item), nodes in zip(prepared, (a or b for a, b in zip(answers, tagged, strict=True)), strict=True)
    ]


def tree_posteriors(
    run: TrainedModel, batch: Batch, span_bonus: Tensor | None = None, *, exact: bool = False
) -> tuple[list[Spans], list[Tensor], list[Tensor]]:
    """Return the trees of a batch, and P(symbol | sentence, tree) of their spans [spans, N] and words [words, P]."""
    grammar = run.grammar_of(batch)
    final = run.config.data.branching_bonus
    decoded = grammar.decode(batch.words, batch.lengths, span_bonus=span_bonus, final_bonus=final, exact=exact)
    return decoded, *grammar.symbols_given_trees(batch.words, batch.lengths, trees=decoded)


def learn_labels(run: TrainedModel, trees: Sequence[SpanTree]) -> LabelMapping:
    """Learn what the run's symbols stand for in gold trees; each is named by its likeliest label.

    learn_labels(run, list(read_trees("gold.trees"))).to_json()   # the content of labels.json
    """
    phrases, tags, punctuation = learn_shares(run, Treebank(list(trees), run.preprocessing))
    names = _likeliest(phrases), _likeliest(tags)
    return LabelMapping(*names, weights_fingerprint(run.model), phrases, tags, punctuation)


def learn_shares(run: TrainedModel, treebank: Treebank) -> tuple[Shares, Shares, dict[str, str]]:
    """Learn P(label | nonterminal), P(tag | preterminal) and the tags of dropped words from gold trees.

    Counts are expectations over the symbols of the run's own trees: a span that gold does not have counts for
    `NO_CONSTITUENT`.
    """
    gold = [gold_labels(tree) for tree in treebank.gold]
    tags = treebank.gold_tags
    labels = sorted({NO_CONSTITUENT, *(label for tree in gold for label in tree.values())})
    tag_names = sorted({tag for sentence in tags or () for tag in sentence})
    counts: dict[str, Tensor] = {}
    usable = [number for number, item in enumerate(treebank.prepared) if len(item.tokens) >= 2]

    def add(part: str, rows: Tensor, names: Sequence[str], found: Sequence[str]) -> None:
        where = torch.tensor([names.index(name) for name in found], dtype=torch.int64, device=rows.device)
        table = counts.setdefault(part, rows.new_zeros(len(names), rows.shape[1]))
        table.index_add_(0, where, rows)

    def compute(batch: Batch) -> list[None]:
        for index, spans, nodes, words in zip(batch.indices, *tree_posteriors(run, batch), strict=True):
            place = usable[index]
            n = len(treebank.prepared[place].kept)
            inner = [k for k, (_, j) in enumerate(spans) if j <= n]  # without those that end in an added <eos>
            add("phrases", nodes[inner], labels, [gold[place].get(spans[k], NO_CONSTITUENT) for k in inner])
            if tags is not None:
                add("tags", words[:n], tag_names, tags[place])
        return [None] * len(batch.indices)

    in_batches(run, [item.tokens for item in treebank.prepared], compute, lambda: None)
    return (
        _shares(counts["phrases"].T, "NT", labels),
        _shares(counts["tags"].T, "T", tag_names) if "tags" in counts else {},
        _tags_of_dropped_words(treebank),
    )


def _shares(counts: Tensor, prefix: str, names: Sequence[str]) -> Shares:
    """Return the shares of labels of each symbol, without those that are very small."""
    overall = counts.sum(0) / counts.sum()
    shares = (counts + SMOOTHING * overall) / (counts.sum(1, keepdim=True) + SMOOTHING)
    return {
        f"{prefix}-{symbol}": {
            name: round(share, 4) for name, share in zip(names, row, strict=True) if share >= LEAST_SHARE
        }
        for symbol, row in enumerate(shares.tolist())
    }


def _likeliest(shares: Shares) -> dict[str, str]:
    rows = {
        symbol: {name: share for name, share in row.items() if name != NO_CONSTITUENT} for symbol, row in shares.items()
    }
    return {symbol: max(row, key=lambda name: row[name]) for symbol, row in rows.items() if row}


def _tags_of_dropped_words(treebank: Treebank) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for tree, item in zip(treebank.original, treebank.prepared, strict=True):
        for place in set(range(len(tree.words))).difference(item.kept):
            counts.setdefault(tree.words[place], Counter())[tree.tags[place]] += 1
    return {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in sorted(counts.items())}


def _labelled_tree(
    words: Sequence[str],
    prepared: Prepared,
    nodes: LabelledNodes,
    punctuation: Mapping[str, str],
) -> SpanTree:
    kept = prepared.kept
    n = len(kept)
    spans: dict[tuple[int, int], str] = {}
    for (i, j), name in zip(nodes.spans, nodes.labels, strict=True):
        whole = i == 0 and j >= n
        if min(j, n) - i >= 2 and (whole or name != NO_CONSTITUENT):
            place = (0, len(words)) if whole else (kept[i], kept[min(j, n) - 1] + 1)
            spans[place] = PHRASE_LABEL if name == NO_CONSTITUENT else name
    tagged = [punctuation.get(escape_brackets(word), PUNCTUATION_TAG) for word in words]
    for index, tag in zip(kept, nodes.tags, strict=False):
        tagged[index] = tag
    ordered = sorted(spans.items(), key=lambda item: (item[0][0], -item[0][1]))
    nested = tuple((*span, label) for span, label in ordered) or ((0, len(words), PHRASE_LABEL),)
    return SpanTree(tuple(words), tuple(tagged), nested)
