"""Description of a grammar's symbols: how often each is used, its children, and its words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simplepcfg.errors import InputError
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference.evaluation import labels_of
from simplepcfg.inference.sentences import Sentence, as_tree, listed
from simplepcfg.inference.symbol_counts import (
    OWN_SENTENCES,
    child_probabilities,
    expected_uses,
    own_text,
    shown_grammar,
    usage,
    uses_in,
    words_and_examples,
)
from simplepcfg.inference.symbol_guide import SymbolGuide
from simplepcfg.inference.symbol_report import SymbolReport, SymbolUse, Weighted
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.progress import stage


def describe_symbols(
    run: TrainedModel,
    sentences: Iterable[Sentence] | None = None,
    *,
    top: int = 20,
    source: str = "text",
) -> SymbolReport:
    """Return the `top` most used nonterminals and preterminals, by expected uses over all derivations of sentences.

    Without sentences: of the run's validation or training text, if its file is still there (the first 1,000
    sentences); else of 1,000 sentences that the grammar itself makes, in expectation. Where all sentences are trees,
    each symbol has the gold label (or tag) that is most frequent where the most probable trees use it.
    """
    if top < 1:
        raise InputError(f"top = {top}; ask for at least one symbol")
    with stage("counting the uses of symbols"):
        return _describe(run, sentences, top, source)


def _describe(run: TrainedModel, sentences: Iterable[Sentence] | None, top: int, source: str) -> SymbolReport:
    grammar = shown_grammar(run)
    tokens: list[list[str]] | None
    gold: dict[str, Weighted] = {}
    if sentences is not None:
        items = listed(sentences)
        tokens = [item.tokens for _, item in run.prepare(items)]
        gold = _gold_labels(run, items, tokens)
    else:
        tokens, source = own_text(run)
    if tokens is not None and not any(len(sentence) >= 2 for sentence in tokens):
        raise InputError(f"{source}: no sentence has two words or more to count on; give longer ones")
    if tokens is not None:
        nonterminals, preterminals = uses_in(run, grammar, tokens)
    else:
        nonterminals, preterminals = (OWN_SENTENCES * uses for uses in expected_uses(grammar))
    chosen = nonterminals.topk(min(top, len(nonterminals))).indices
    chosen_tags = preterminals.topk(min(top, len(preterminals))).indices
    guide = SymbolGuide(run)
    if tokens is None:
        words_below: list[tuple[list[Weighted], list[Weighted]]] = [([], []) for _ in chosen.tolist()]
    else:
        words_below = words_and_examples(run, grammar, tokens, chosen)
    left, right = child_probabilities(grammar)
    return SymbolReport(
        run.name,
        source,
        None if tokens is None else sum(len(sentence) >= 2 for sentence in tokens),
        usage(nonterminals),
        usage(preterminals),
        [
            SymbolUse(
                f"NT-{symbol}",
                float(nonterminals[symbol]),
                float(nonterminals[symbol] / nonterminals.sum()),
                guide.children(left[symbol]),
                guide.children(right[symbol]),
                words,
                examples,
                gold.get(f"NT-{symbol}"),
            )
            for symbol, (words, examples) in zip(chosen.tolist(), words_below, strict=True)
        ],
        [
            SymbolUse(
                f"T-{tag}",
                float(preterminals[tag]),
                float(preterminals[tag] / preterminals.sum()),
                [],
                [],
                guide.words(tag, 10),
                [],
                gold.get(f"T-{tag}"),
            )
            for tag in chosen_tags.tolist()
        ],
    )


def _gold_labels(run: TrainedModel, items: Sequence[Sentence], tokens: Sequence[Sequence[str]]) -> dict[str, Weighted]:
    """Return the best gold label of each symbol, and its share among gold constituents; none without trees."""
    trees = [tree for item in items if (tree := as_tree(item)) is not None]
    if len(trees) < len(items) or not any(len(sentence) >= 2 for sentence in tokens):
        return {}
    report = labels_of(run, Treebank(trees, run.preprocessing))
    if report is None:
        return {}
    return {**report.phrases.best(), **(report.tags.best() if report.tags else {})}
