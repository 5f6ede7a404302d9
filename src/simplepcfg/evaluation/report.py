"""Evaluation report of one parser or language model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simplepcfg.evaluation.dependency_report import DependencyReport
from simplepcfg.evaluation.f1 import F1Report, LabelRecall
from simplepcfg.evaluation.label_report import LabelReport
from simplepcfg.evaluation.perplexity import OpenVocabulary, PerplexityReport
from simplepcfg.files import Record

# The quantity that stands for log p where a model has no closed form; docs/models.md explains it.
POSTERIOR_MEAN = "ELBO at the posterior mean"


@dataclass(frozen=True, slots=True)
class VocabularyUse:
    """Size of a model's vocabulary and the number of unknown words in a text, both without `<eos>`."""

    size: int
    fingerprint: str
    words: int  # of the sentences that perplexity is over
    unknown: int  # of these, scored as `<unk>` or as one of its classes
    by_sentence: tuple[tuple[int, int], ...] = field(default=(), repr=False)  # place in the text, unknown words

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
    importance: PerplexityReport | None = None  # by importance sampling, where that was asked for
    importance_samples: int | None = None  # for each sentence
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
        f1, perplexity, dependencies = self.f1, self.perplexity, self.dependencies
        return {
            "name": self.name,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "sentence_f1": self.sentence_f1,
            "corpus_f1": self.corpus_f1,
            "f1_sentences": f1.sentences if f1 else None,
            "f1_skipped_one_word": f1.skipped_one_word if f1 else None,
            "f1_by_length": {
                bucket.name: {"sentences": bucket.sentences, "sentence_f1": bucket.sentence_f1}
                for bucket in (f1.by_length if f1 else ())
            }
            or None,
            "recall_by_label": {
                label.label: {"found": label.found, "total": label.total, "recall": label.recall}
                for label in self.recall_by_label
            }
            or None,
            "subtree_recall": dependencies.recall if dependencies else None,
            "crossing_brackets": dependencies.crossing if dependencies else None,
            "subtrees": dependencies.subtrees if dependencies else None,
            "discontinuous_subtrees": dependencies.discontinuous if dependencies else None,
            "labels": self.labels.to_dict() if self.labels else None,
            "log_likelihood_nats": perplexity.log_likelihood if perplexity else None,
            "perplexity": _finite(perplexity.perplexity) if perplexity else None,
            "likelihood": self.likelihood,
            "perplexity_tokens": perplexity.tokens if perplexity else None,
            "perplexity_convention": perplexity.convention if perplexity else None,
            "perplexity_sentences": perplexity.sentences if perplexity else None,
            "perplexity_skipped_one_word": perplexity.skipped_one_word if perplexity else None,
            "impossible_sentences": perplexity.impossible if perplexity else None,
            "vocabulary_size": self.vocabulary.size if self.vocabulary else None,
            "unknown_words": self.vocabulary.unknown if self.vocabulary else None,
            "unknown_share": self.vocabulary.unknown_share if self.vocabulary else None,
            "open_log_likelihood_nats": self.open_vocabulary.log_likelihood if self.open_vocabulary else None,
            "open_perplexity": self.open_vocabulary.perplexity if self.open_vocabulary else None,
            "character_perplexity": self.open_vocabulary.character_perplexity if self.open_vocabulary else None,
            "characters": self.open_vocabulary.characters if self.open_vocabulary else None,
            "importance_samples": self.importance_samples,
            "importance_log_likelihood_nats": self.importance.log_likelihood if self.importance else None,
            "importance_perplexity": _finite(self.importance.perplexity) if self.importance else None,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
