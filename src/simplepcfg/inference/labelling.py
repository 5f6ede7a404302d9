"""What a run's symbols stand for in gold trees: P(label | symbol), learned from a treebank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.symbol_labels import NO_CONSTITUENT, gold_labels
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.label_mapping import LabelMapping, Shares, weights_fingerprint
from simplepcfg.inference.parsing import mbr_spans, symbols_of_trees, tree_cells
from simplepcfg.inference.trained_model import TrainedModel

SMOOTHING = 1.0  # spans that are added to those of each symbol, with labels as those of all symbols together have
LEAST_SHARE = 0.005  # of a label that is kept


def learn_labels(run: TrainedModel, trees: Sequence[SpanTree]) -> LabelMapping:
    """Learn what the run's symbols stand for in gold trees; each is named by its likeliest label.

    Counts are expectations over the symbols of the run's own trees: a span that gold does not have counts for
    `NO_CONSTITUENT`.

    learn_labels(run, list(read_trees("gold.trees"))).to_json()   # the content of labels.json
    """
    treebank = Treebank(list(trees), run.preprocessing)
    gold = [gold_labels(tree) for tree in treebank.gold]
    tags = treebank.gold_tags
    labels = sorted({NO_CONSTITUENT, *(label for tree in gold for label in tree.values())})
    tag_names = sorted({tag for sentence in tags or () for tag in sentence})
    counts: dict[str, Tensor] = {}

    def add(part: str, rows: Tensor, names: Sequence[str], found: Sequence[str]) -> None:
        where = torch.tensor([names.index(name) for name in found], dtype=torch.int64, device=rows.device)
        table = counts.setdefault(part, rows.new_zeros(len(names), rows.shape[1]))
        table.index_add_(0, where, rows)

    def compute(batch: Batch) -> list[None]:
        for place, spans, nodes, words in zip(batch.indices, *symbols_of_trees(run, batch, trees_of_run), strict=True):
            n = len(treebank.prepared[place].kept)
            inner = [k for k, (_, j) in enumerate(spans) if j <= n]  # without those that end in an added <eos>
            add("phrases", nodes[inner], labels, [gold[place].get(spans[k], NO_CONSTITUENT) for k in inner])
            if tags is not None:
                add("tags", words[:n], tag_names, tags[place])
        return [None] * len(batch)

    tokens = [item.tokens for item in treebank.prepared]
    trees_of_run = mbr_spans(run, tokens)
    in_batches(run, tokens, compute, lambda: None, cells=tree_cells(run))
    phrase_shares = _shares(counts["phrases"].T, "NT", labels)
    tag_shares = _shares(counts["tags"].T, "T", tag_names) if "tags" in counts else {}
    return LabelMapping.model_construct(
        format="simplepcfg labels 1",
        phrases=_likeliest(phrase_shares),
        tags=_likeliest(tag_shares),
        model=weights_fingerprint(run.model),
        phrase_shares=phrase_shares,
        tag_shares=tag_shares,
        punctuation=_tags_of_dropped_words(treebank),
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
    rows = {symbol: {**row, NO_CONSTITUENT: 0.0} for symbol, row in shares.items()}
    return {symbol: max(row, key=row.__getitem__) for symbol, row in rows.items() if any(row.values())}


def _tags_of_dropped_words(treebank: Treebank) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for file_tags, item in zip(treebank.file_tags, treebank.prepared, strict=True):
        for place in set(range(len(item.words))).difference(item.kept):
            counts.setdefault(item.words[place], Counter())[file_tags[place]] += 1
    return {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in sorted(counts.items())}
