"""Evaluation report of one parser or language model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simplepcfg.evaluation.f1 import F1Report, LabelRecall, SentenceSpans
from simplepcfg.evaluation.label_report import LabelReport
from simplepcfg.evaluation.perplexity import OpenVocabulary, PerplexityReport
from simplepcfg.files import Record, finite

# The quantity that stands for log p where a model has no closed form; docs/models.md explains it.
POSTERIOR_MEAN = "ELBO at the posterior mean"
# Keys of the JSON of a report, and where it has their values.
JSON = {
    **{key: key for key in ("name", "sentences", "tokens", "sentence_f1", "corpus_f1", "likelihood")},
    "f1_sentences": "f1.sentences",
    "f1_skipped_one_word": "f1.skipped_one_word",
    "subtree_recall": "dependencies.recall",
    "crossing_brackets": "dependencies.crossing",
    "subtrees": "dependencies.subtrees",
    "discontinuous_subtrees": "dependencies.discontinuous",
    "log_likelihood_nats": "perplexity.log_likelihood",
    "perplexity": "perplexity.perplexity",
    "perplexity_tokens": "perplexity.tokens",
    "perplexity_convention": "perplexity.convention",
    "perplexity_sentences": "perplexity.sentences",
    "perplexity_skipped_one_word": "perplexity.skipped_one_word",
    "impossible_sentences": "perplexity.impossible",
    "vocabulary_size": "vocabulary.size",
    "unknown_words": "vocabulary.unknown",
    "unknown_share": "vocabulary.unknown_share",
    "open_log_likelihood_nats": "open_vocabulary.log_likelihood",
    "open_perplexity": "open_vocabulary.perplexity",
    "character_perplexity": "open_vocabulary.character_perplexity",
    "characters": "open_vocabulary.characters",
}
Part = Any  # of a report: a number, a text or None


@dataclass(frozen=True, slots=True)
class DependencyReport:
    """Recall of dependency subtrees and the share of brackets that cross one, 0 to 100, over all sentences.

    Counted are the spans of subtrees of two words or more but not of the whole sentence, without punctuation; a word
    whose subtree is not in one piece has no span. A dependency tree says nothing of the brackets inside a word and its
    dependents, so that a bracket that is no subtree is wrong only if it crosses one: precision and F1 would count it.
    """

    by_sentence: tuple[SentenceSpans, ...] = field(repr=False)
    discontinuous: int  # words whose subtree is not in one piece
    recall_by_relation: tuple[LabelRecall, ...]

    @property
    def subtrees(self) -> int:
        """Number of gold spans."""
        return sum(item.gold for item in self.by_sentence)

    @property
    def recall(self) -> float | None:
        """Share of the subtrees that are brackets; None if there are none."""
        return self._percentage("hits", "gold")

    @property
    def crossing(self) -> float | None:
        """Share of the brackets, without words and whole sentences, that cross a subtree; None if there are none."""
        return self._percentage("crossing", "predicted")

    def _percentage(self, part: str, whole: str) -> float | None:
        count, total = (sum(getattr(item, name) for item in self.by_sentence) for name in (part, whole))
        return 100 * count / total if total else None


@dataclass(frozen=True, slots=True)
class VocabularyUse:
    """Size of a model's vocabulary and the number of unknown words in a text, both without `<eos>`."""

    size: int
    fingerprint: str
    words: int  # of the sentences that perplexity is over
    unknown: int  # of these, scored as `<unk>` or as one of its classes

    @property
    def unknown_share(self) -> float:
        """Share of unknown words, 0 to 1."""
        return self.unknown / self.words if self.words else 0.0


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """F1, if there are gold trees, and perplexity, if there is a model; `tokens` are words after preprocessing.

    Gold trees of dependencies have recall and crossing brackets in place of F1.
    """

    name: str
    sentences: int
    tokens: int
    f1: F1Report | None = None
    perplexity: PerplexityReport | None = None
    likelihood: str | None = None  # what the perplexity is of: "exact", or POSTERIOR_MEAN
    vocabulary: VocabularyUse | None = None  # what the perplexity is over
    open_vocabulary: OpenVocabulary | None = None  # with the spellings of unknown words, where the model has any
    labels: LabelReport | None = None  # symbols against gold labels, where that was asked for
    dependencies: DependencyReport | None = None  # against dependency trees

    @property
    def sentence_f1(self) -> float | None:
        """Mean F1 over sentences of two words or more, 0 to 100."""
        return self.f1.sentence_f1 if self.f1 else None

    @property
    def corpus_f1(self) -> float | None:
        """Micro-averaged F1, 0 to 100."""
        return self.f1.corpus_f1 if self.f1 else None

    @property
    def recall_by_label(self) -> tuple[LabelRecall, ...]:
        """Recall of constituents by label, or of dependency subtrees by relation."""
        if self.dependencies:
            return self.dependencies.recall_by_relation
        return self.f1.recall_by_label if self.f1 else ()

    def to_dict(self) -> Record:
        """Return plain values for JSON; None for numbers that do not apply and for an infinite perplexity."""
        return {
            **{key: finite(part_of(self, path)) for key, path in JSON.items()},
            "f1_by_length": {
                bucket.name: {"sentences": bucket.sentences, "sentence_f1": bucket.sentence_f1}
                for bucket in (self.f1.by_length if self.f1 else ())
            }
            or None,
            "recall_by_label": {
                label.label: {"found": label.found, "total": label.total, "recall": label.recall}
                for label in self.recall_by_label
            }
            or None,
            "labels": self.labels.to_dict() if self.labels else None,
        }


def part_of(report: EvaluationReport, path: str) -> Part:
    """Return what a report has at a dotted path, such as `f1.sentences`; None where it has no such part."""
    value: object = report
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value
