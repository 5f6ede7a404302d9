"""Evaluation of a run on a text: F1 against gold trees, perplexity on trees or plain sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike

from simplepcfg.data.readers import file_name, has_dependencies, read_sentences, sniff
from simplepcfg.data.spelling import SpellingModel, spelling_log_probability
from simplepcfg.data.trees import SpanTree, as_tree
from simplepcfg.data.vocabulary import EOS, Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.evaluation.dependency_treebank import make_treebank, read_gold
from simplepcfg.evaluation.label_report import LabelReport
from simplepcfg.evaluation.perplexity import open_vocabulary, perplexity
from simplepcfg.evaluation.report import POSTERIOR_MEAN, EvaluationReport, VocabularyUse
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.files import Record
from simplepcfg.inference.derivations import most_probable_trees, viterbi_trees
from simplepcfg.inference.marginals import no_bonus, with_separators
from simplepcfg.inference.parsing import check_decoder, labelled_trees, mbr_spans
from simplepcfg.inference.scoring import token_scores
from simplepcfg.inference.sentences import Sentence, listed, split_sentences
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.linguistics.controls.ngram import NgramModel
from simplepcfg.ops.modes import without_modes


@without_modes
def evaluate(
    run: TrainedModel, data: str | PathLike[str] | Treebank | Iterable[Sentence], name: str, decode: str, labels: bool
) -> EvaluationReport:
    """Return F1 and perplexity on trees, sentences or a file; see ``Run.evaluate``."""
    check_decoder(decode)
    if isinstance(data, Treebank):
        return _evaluate_treebank(run, data, name, decode, labels)
    items: Sequence[object]
    if isinstance(data, str | PathLike):
        source = file_name(data)
        if has_dependencies(source) or sniff(source) == "trees":
            treebank = make_treebank(read_gold(source), run.preprocessing, source)
            return _evaluate_treebank(run, treebank, name, decode, labels)
        items = list(read_sentences(source, split=run.preprocessing.split))
    else:
        items = listed(data)
    if not items:
        raise InputError("nothing to evaluate; give at least one tree or sentence")
    trees = [as_tree(item) for item in items]
    gold = [tree for tree in trees if tree is not None]
    if not gold:
        return _evaluate_text(run, items, name)
    if len(gold) < len(items):
        raise InputError(f"item {trees.index(None)} is no tree but others are; give trees or sentences, not both")
    return _evaluate_treebank(run, Treebank(gold, run.preprocessing), name, decode, labels)


def _evaluate_treebank(run: TrainedModel, treebank: Treebank, name: str, decode: str, labels: bool) -> EvaluationReport:
    tokens = [item.tokens for item in treebank.prepared]
    if not run.has_trees:
        return EvaluationReport(name, len(treebank.gold), treebank.tokens, **_language_model(run, tokens))
    if decode == "viterbi":
        decoded = [tree.spans for tree in most_probable_trees(run, tokens)]
    else:
        bonus = with_separators(run, treebank.prepared, no_bonus)
        decoded = mbr_spans(run, tokens, bonus, exact=True)
    spans = [item.word_spans(tree) for item, tree in zip(treebank.prepared, decoded, strict=True)]
    report = replace(treebank.report(name, spans), **_language_model(run, tokens))
    return replace(report, labels=labels_of(run, treebank)) if labels else report


def labels_of(run: TrainedModel, treebank: Treebank) -> LabelReport | None:
    """Report how the run's symbols match gold labels, by its most probable trees.

    None where these have no symbols: a hidden Markov model has no trees, and a large rank grammar no symbols to show.
    """
    if not run.has_trees:
        return None
    try:
        trees = viterbi_trees(run, treebank.prepared, no_bonus)
    except InputError:
        return None
    report = treebank.labels(trees)
    if report is None or run.labels is None or not run.labels.phrase_shares:
        return report
    bonus = with_separators(run, treebank.prepared, no_bonus)
    labelled = labelled_trees(run, treebank.prepared, bonus, run.labels, exact=True)
    return replace(report, own=treebank.own_labels(labelled))


def _evaluate_text(run: TrainedModel, items: Sequence[Sentence], name: str) -> EvaluationReport:
    prepared = run.prepare(items)
    tokens = [item.tokens for item in prepared]
    if all(len(item) < 2 for item in tokens):
        raise InputError(f"none of {len(items)} sentences has two words or more; perplexity needs one that has")
    words = sum(len(item.kept) for item in prepared)
    return EvaluationReport(name, len(items), words, **_language_model(run, tokens))


def _language_model(run: TrainedModel, tokens: Sequence[Sequence[str]]) -> Record:
    """Return the fields of a report that concern likelihoods."""
    spelling = None if run.closed_vocabulary else run.spelling
    log_p = [score.log_probability for score in token_scores(run, tokens)]
    fields = _likelihoods(run.vocabulary, tokens, log_p, run.preprocessing.eos, spelling)
    return fields if run.shares_rules else {**fields, "likelihood": POSTERIOR_MEAN}


def _likelihoods(
    vocabulary: Vocabulary,
    tokens: Sequence[Sequence[str]],
    log_p: Sequence[float],
    eos: bool,
    spelling: SpellingModel | None,
) -> Record:
    """Return the fields of a report that concern likelihoods, of sentences whose exact log-probabilities are known."""
    closed = perplexity(log_p, [len(item) for item in tokens], eos)
    # Unknown words are counted in the sentences of two words or more, over which perplexity is computed.
    words = [word for item in tokens if len(item) >= 2 for word in item if word != EOS]
    unknown = sum(not vocabulary.knows(word) for word in words)
    log_spelling = partial(spelling_log_probability, spelling, vocabulary)
    return {
        "perplexity": closed,
        "likelihood": "exact",
        "vocabulary": VocabularyUse(vocabulary.size, vocabulary.fingerprint, len(words), unknown),
        "open_vocabulary": None if spelling is None else open_vocabulary(closed, tokens, log_spelling),
    }


def evaluate_ngram(model: NgramModel, items: Sequence[Sentence], name: str) -> EvaluationReport:
    """Return the perplexity of an n-gram model, over the same tokens as that of a run with the same preprocessing."""
    trees = [item for item in items if isinstance(item, SpanTree)]
    if items and len(trees) == len(items):
        prepared = Treebank(trees, model.preprocessing).prepared
    else:
        split = split_sentences(items, model.preprocessing)
        prepared = [model.preprocessing.apply(words, tags) for words, tags in split]
    tokens = [item.tokens for item in prepared]
    # The end stands for the <eos> of a run that adds one, and such a run scores sentences of one word, too.
    eos = EOS in model.vocabulary
    ended = [[*item, EOS] if eos and item else item for item in tokens]
    fields = _likelihoods(model.vocabulary, ended, model.token_log_probabilities(tokens), eos, model.spelling)
    return EvaluationReport(name, len(items), sum(map(len, tokens)), **fields)
