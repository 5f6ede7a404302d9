"""Parsing: minimum-Bayes-risk trees by span marginals, with labels if a run has learned any, or most probable trees.

A file of labels has P(label | symbol), learned from a treebank (`labelling.py`). A span's label is the one with the
largest sum, over symbols A, of P(A | sentence, tree) · P(label | A), so that a tree without symbols has labels, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.trees import PHRASE_LABEL, WORD_LABEL, SpanTree, escape_brackets
from simplepcfg.errors import InputError
from simplepcfg.evaluation.symbol_labels import NO_CONSTITUENT
from simplepcfg.evaluation.treebank import Spans
from simplepcfg.inference.batches import cells_a_batch, in_batches
from simplepcfg.inference.derivations import viterbi_trees
from simplepcfg.inference.label_mapping import LabelMapping, Shares
from simplepcfg.inference.marginals import Bonus, no_bonus, with_separators
from simplepcfg.inference.sentences import original_tree
from simplepcfg.inference.trained_model import TrainedModel

DECODERS = ("mbr", "exact-mbr", "viterbi")
PUNCTUATION_TAG = "PUNCT"  # of dropped words that the treebank of the labels did not have
# A node is left out if it is no constituent with more than this probability. Of 0.3, 0.4 … 0.9, labelled F1 of GUM's
# development trees was best with 0.6 and 0.7.
LEFT_OUT_ABOVE = 2 / 3

# A binary tree over a sentence's tokens, the labels of its spans, and the tags of its tokens.
LabelledNodes = tuple[Spans, list[str], list[str]]


def parse_spans(run: TrainedModel, prepared: list[Prepared], bonus: Bonus, decode: str, labels: bool) -> list[SpanTree]:
    """Return the tree of each sentence over its original words; see ``Run.parse_spans``."""
    check_decoder(decode)
    if decode == "viterbi":
        return viterbi_trees(run, prepared, bonus)
    exact, bonus = decode == "exact-mbr", with_separators(run, prepared, bonus)
    if labels and run.labels is not None and run.labels.phrase_shares:
        return labelled_trees(run, prepared, bonus, run.labels, exact=exact)
    decoded = mbr_spans(run, [item.tokens for item in prepared], bonus, exact=exact)
    return [
        original_tree(item, [(i, j, PHRASE_LABEL) for i, j in spans])
        for item, spans in zip(prepared, decoded, strict=True)
    ]


def check_decoder(decode: str) -> None:
    """Raise InputError if `decode` is not in ``DECODERS``."""
    if decode not in DECODERS:
        raise InputError(f"decode = {decode!r}; take one of {', '.join(DECODERS)}")


def mbr_spans(
    run: TrainedModel, sentences: Sequence[Sequence[str]], bonus: Bonus = no_bonus, *, exact: bool = False
) -> list[Spans]:
    """Return the spans, over each sentence's tokens, of the tree with the largest sum of span marginals.

    ``data.branching_bonus`` is added to the marginal of every span that ends the sentence. With ``exact``, all symbols
    count; see ``Grammar.decode``.
    """

    def compute(batch: Batch) -> list[Spans]:
        final = run.config.data.branching_bonus
        grammar = run.grammar_of(batch)
        return grammar.decode(batch.words, batch.lengths, span_bonus=bonus(batch), final_bonus=final, exact=exact)

    return in_batches(run, sentences, compute, list)


class LabelTable:
    """P(label | symbol) as a matrix [symbols, labels], with zeros for symbols that have no label."""

    def __init__(self, shares: Shares, prefix: str, symbols: int, device: torch.device) -> None:
        self.labels = sorted({label for row in shares.values() for label in row})
        self.none = self.labels.index(NO_CONSTITUENT) if prefix == "NT" and NO_CONSTITUENT in self.labels else None
        self.shares = torch.zeros(symbols, len(self.labels), device=device, dtype=torch.float32)
        for symbol, row in shares.items():
            number = int(symbol.removeprefix(f"{prefix}-"))
            self.shares[number] = torch.tensor([row.get(label, 0.0) for label in self.labels])

    def best(self, symbols: Tensor, otherwise: str) -> list[str]:
        """Return the best label for each row of probabilities of symbols, `otherwise` where all are 0.

        It is the likeliest one; of nonterminals it is `NO_CONSTITUENT` exactly where that is probable enough.
        """
        shares = symbols @ self.shares
        if not self.labels:
            return [otherwise] * len(shares)
        if self.none is not None:
            is_probable = shares[:, self.none] > LEFT_OUT_ABOVE * shares.sum(1)
            shares[:, self.none] = torch.where(is_probable, torch.inf, 0.0)
        values, which = shares.max(1)
        pairs = zip(values.tolist(), which.tolist(), strict=True)
        return [self.labels[index] if value > 0 else otherwise for value, index in pairs]


def labelled_trees(
    run: TrainedModel, prepared: list[Prepared], bonus: Bonus, mapping: LabelMapping, *, exact: bool = False
) -> list[SpanTree]:
    """Return the minimum-Bayes-risk tree of each sentence with labels, over its original words.

    Nodes that are most probably no constituents are left out: their children hang from the node above. ``exact`` is
    that of ``Grammar.decode``. A sentence of one word has no tree in the grammar: its tag is what emits the word.
    """

    tokens = [item.tokens for item in prepared]

    @cache
    def table(prefix: str, symbols: int) -> LabelTable:
        shares = mapping.phrase_shares if prefix == "NT" else mapping.tag_shares
        return LabelTable(shares, prefix, symbols, run.device)

    def label(batch: Batch) -> list[LabelledNodes]:
        decoded, symbols, words = symbols_of_trees(run, batch, trees)
        phrases, tags = table("NT", symbols[0].shape[1]), table("T", words[0].shape[1])
        return [
            (spans, phrases.best(nodes, PHRASE_LABEL), tags.best(leaves, WORD_LABEL))
            for spans, nodes, leaves in zip(decoded, symbols, words, strict=True)
        ]

    def compute_tags(batch: Batch) -> list[LabelledNodes]:
        words = run.grammar_of(batch).log_emissions(batch.words, batch.lengths).softmax(2)
        tags = table("T", words.shape[2])
        return [([], [], tags.best(leaves, WORD_LABEL)) for leaves in words]

    trees = mbr_spans(run, tokens, bonus, exact=exact)
    answers = in_batches(run, tokens, label, lambda: None, cells=tree_cells(run))
    single = [item if len(item) == 1 else [] for item in tokens]
    tagged = in_batches(run, single, compute_tags, lambda: None, least=1)
    return [
        _labelled_tree(item, tree or tag or ([], [], []), mapping)
        for item, tree, tag in zip(prepared, answers, tagged, strict=True)
    ]


def tree_cells(run: TrainedModel) -> int:
    """Return the largest size of a batch, as sentences × words², for questions about one tree of each sentence.

    Few rows are computed for each word, and what takes time is to read the rules: batches are larger than for charts.
    """
    return 4 * cells_a_batch(run)


def symbols_of_trees(
    run: TrainedModel, batch: Batch, trees: Sequence[Spans]
) -> tuple[list[Spans], list[Tensor], list[Tensor]]:
    """Return the trees of a batch, and P(symbol | sentence, tree) of their spans [spans, N] and words [words, P]."""
    decoded = [trees[index] for index in batch.indices]
    return decoded, *run.grammar_of(batch).symbols_given_trees(batch.words, batch.lengths, trees=decoded)


def _labelled_tree(item: Prepared, nodes: LabelledNodes, mapping: LabelMapping) -> SpanTree:
    """Return a tree over the original words, without nodes that are no constituents; the whole sentence is one."""
    inner, labels, tags = nodes
    spans = []
    for (i, j), name in zip(inner, labels, strict=True):
        if name != NO_CONSTITUENT:
            spans.append((i, j, name))
        elif i == 0 and j >= len(item.kept):
            spans.append((i, j, PHRASE_LABEL))
    dropped = [mapping.punctuation.get(escape_brackets(word), PUNCTUATION_TAG) for word in item.words]
    return original_tree(item, spans, tags, dropped)
