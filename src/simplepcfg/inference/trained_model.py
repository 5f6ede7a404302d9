"""A trained model with its vocabulary, preprocessing and configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.spelling import SpellingModel, spelling_log_probability
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.files import Record
from simplepcfg.grammars import Grammar, HiddenMarkovModel
from simplepcfg.grammars.kept import Kept
from simplepcfg.inference.kept_prefixes import KeptPrefixes
from simplepcfg.inference.label_mapping import LabelMapping
from simplepcfg.inference.sentences import Sentence, split_sentences
from simplepcfg.inference.text_warnings import TextWarnings
from simplepcfg.linguistics.word_model import with_known_marks
from simplepcfg.ops.modes import without_modes
from simplepcfg.pretrained import name_of
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.processes import leave_threads_behind


class TrainedModel:
    """A model, its vocabulary and its configuration: what every question of this package is asked of.

    ``Run``, which users call, adds the questions themselves.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        config: RunConfig,
        *,
        directory: Path | None = None,
        best: Record | None = None,
        spelling: SpellingModel | None = None,
        closed_vocabulary: bool = False,
        labels: LabelMapping | None = None,
    ) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary
        self.config = config
        self.preprocessing = config.data.preprocessing.completed(vocabulary.words)
        self.directory = directory
        self.best = dict(best or {})
        self.spelling = spelling
        self.closed_vocabulary = closed_vocabulary  # spellings are kept, but do not count
        self.labels = labels
        self._text_warnings = TextWarnings(vocabulary, spelling, closed_vocabulary)
        self._grammar: Kept[Grammar] = Kept()
        self._prefixes: Kept[KeptPrefixes] = Kept()

    def __repr__(self) -> str:
        words = f"{len(self.vocabulary):,} words"
        return f"<{type(self).__name__} {self.name}: {self.config.model.kind}, {words}, on {self.device}>"

    @property
    def name(self) -> str:
        """Name of the run in reports: its folder, the name of an installed grammar, or that of its configuration."""
        if self.directory is None:
            return self.config.name
        return name_of(self.directory) or str(self.directory)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    @property
    def grammar(self) -> Grammar:
        """Grammar of the weights, detached; for gradients call ``run.model.grammar()``.

        It is computed once, and again after the weights were changed in place. A model whose rules differ by sentence
        has none to show.
        """
        if not self.shares_rules:
            raise InputError(
                f"{self.name}: a model of kind {self.config.model.kind} makes its rules for each sentence; what needs "
                "one grammar for all sentences cannot be asked of it, use an sn-pcfg"
            )
        leave_threads_behind(self.device)
        return self._grammar.of(tuple(self.model.parameters()), self._make_grammar)

    @property
    def prefixes(self) -> KeptPrefixes:
        """The prefixes that were completed last, as long as the parameters stay the same."""
        return self._prefixes.of(tuple(self.model.parameters()), lambda: KeptPrefixes(self.grammar))

    @without_modes
    def _make_grammar(self) -> Grammar:
        with torch.no_grad():
            # Detached, since emissions hold the word embeddings, which are parameters and require gradients.
            grammar: Grammar = self.model.grammar()  # type: ignore[operator]
            return grammar.detached()

    @property
    def shares_rules(self) -> bool:
        """Whether all sentences have the same rules, which those of a compound model do not."""
        return bool(self.model.shares_rules)

    @property
    def has_trees(self) -> bool:
        """Whether the model has constituents; a hidden Markov model has states only, and no F1."""
        return not (self.shares_rules and isinstance(self.grammar, HiddenMarkovModel))

    @without_modes
    def grammar_of(self, batch: Batch) -> Grammar:
        """Return the grammar of a batch: the run's, or the sentences' own grammars of a compound model."""
        if self.shares_rules:
            return self.grammar
        leave_threads_behind(self.device)
        with torch.no_grad():
            return self.model.grammar(batch.words, batch.lengths)  # type: ignore[operator]

    def spelling_log_probability(self, token: str) -> float:
        """Return the log-probability (nats) of a token's spelling: 0 for known words, or if spellings do not count."""
        return 0.0 if self.closed_vocabulary else spelling_log_probability(self.spelling, self.vocabulary, token)

    def spellings_log_probability(self, tokens: Iterable[str]) -> float:
        """Return the log-probability (nats) of the spellings of all tokens of a sentence."""
        return sum(map(self.spelling_log_probability, tokens))

    def prepare(self, sentences: Iterable[Sentence]) -> list[Prepared]:
        """Return each sentence with its tokens; warn of text that suits the run badly."""
        split = list(split_sentences(sentences, self.preprocessing))
        prepared = [self.prepare_words(words, tags) for words, tags in split]
        self._text_warnings.check(self.name, prepared, plain=all(tags is None for _, tags in split))
        return prepared

    def prepare_words(self, words: Sequence[str], tags: Sequence[str] | None = None) -> Prepared:
        """Return one sentence with its tokens; marks of punctuation are read as the training text writes them."""
        known = with_known_marks(self, words) if self.preprocessing.punctuation == "keep" else words
        return replace(self.preprocessing.apply(known, tags), words=words)
