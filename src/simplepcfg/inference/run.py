"""A trained grammar with all that is needed to use it: score, parse and evaluate sentences, save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from simplepcfg.data.constraints import Constraints
from simplepcfg.data.trees import SpanTree
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.inference import labelled_trees
from simplepcfg.inference.batches import cells_a_batch, hopeless
from simplepcfg.inference.completion import MAX_LENGTH, Completion, complete
from simplepcfg.inference.evaluation import evaluate, evaluate_treebank
from simplepcfg.inference.labelled_trees import SampledText, ScoredTree
from simplepcfg.inference.marginals import (
    ConstraintList,
    TaggedWord,
    bonus_of_batch,
    divergences,
    entropies,
    tagged_words,
    word_span_marginals,
)
from simplepcfg.inference.parsing import k_best_blocks, parse_blocks, parse_spans
from simplepcfg.inference.scoring import log_probabilities
from simplepcfg.inference.sentences import Sentence, nltk_trees, split_sentences
from simplepcfg.inference.span_chart import SpanChart, chart_of
from simplepcfg.inference.surprisal import SurprisalTable, surprisal_records
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.training.machine.failures import resource_errors

if TYPE_CHECKING:
    from nltk.tree import Tree

    from simplepcfg.inference.symbol_guide import SymbolDescription, SymbolGuide
    from simplepcfg.inference.symbol_report import SymbolReport

DRAWING_ADVICE = "draw fewer at a time, or lower max_length"


class Run(TrainedModel):
    """A model, its vocabulary and its preprocessing. Sentences are strings or lists of words.

    run = simplepcfg.load("runs/demo")
    run.parse(["the old man sees a dog ."])[0].pretty_print()
    run.score(["the old man sees a dog ."])   # [-21.4], natural log-probabilities
    """

    _guide: SymbolGuide | None = None  # made when the first symbol is described

    def score(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[float]:
        """Natural log-probability of each sentence, in order; -inf for those of fewer than two words.

        Compound models have no exact one; theirs is log p(x | posterior mean) − KL. With constraints, of the trees that
        they allow, each with its bonuses.
        """
        prepared = self.prepare(sentences)
        bonus = bonus_of_batch(constraints, prepared, self.device)
        return log_probabilities(self, [item.tokens for _, item in prepared], bonus)

    def surprisal(self, sentences: Iterable[Sentence]) -> list[SurprisalTable]:
        """For each sentence a record a word and one for its end: surprisal and entropy of what could come, in nats.

        Exact, over all trees: the surprisals of a sentence, its end's included, add up to −log p of the sentence.
        """
        return surprisal_records(self, sentences)

    def complete(
        self,
        prefix: str | Sequence[str],
        k: int = 10,
        *,
        samples: int = 0,
        seed: int = 0,
        max_length: int = MAX_LENGTH,
    ) -> Completion:
        """The `k` likeliest words after the beginning of a sentence, and `samples` continuations drawn at random.

        `max_length` is the most words that prefix and continuation may have together; "" is the empty prefix.
        """
        with resource_errors("completing a sentence", DRAWING_ADVICE):
            return complete(self, prefix, k, samples, seed, max_length)

    def parse(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None, *, decode: str = "mbr"
    ) -> list[Tree]:
        """The tree of each sentence over its original words, in order.

        `decode="mbr"` gives the tree whose spans have the largest total posterior, without symbols; "viterbi" the most
        probable tree with its symbols, `(NT-12 (T-5 the) …)`. Dropped punctuation hangs from the lowest node around
        it. One word is the trivial tree `(X (T word))`, an empty sentence a tree without children. `constraints` has
        one entry a sentence, such as `{"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]}`, or None.
        """
        return nltk_trees(self.parse_spans(sentences, constraints, decode=decode))

    def parse_spans(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None, *, decode: str = "mbr"
    ) -> list[SpanTree]:
        """As `parse`, but the trees as arrays of spans, which have no limit of depth."""
        return parse_spans(self, sentences, constraints, decode)

    def parse_blocks(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None, *, decode: str = "mbr"
    ) -> Iterator[list[SpanTree]]:
        """As `parse_spans`, in order, in lists that take seconds each: what is done can be shown and is not lost."""
        return parse_blocks(self, sentences, constraints, decode)

    def k_best(
        self, sentences: Iterable[Sentence], k: int, constraints: ConstraintList | None = None
    ) -> list[list[ScoredTree]]:
        """The k most probable trees of each sentence with their symbols, best first; fewer where there are fewer.

        A sentence without any tree under the grammar has one that stands in, of log-probability -inf.
        """
        prepared = self.prepare(sentences)
        return labelled_trees.k_best_trees(self, prepared, k, bonus_of_batch(constraints, prepared, self.device))

    def k_best_blocks(
        self, sentences: Iterable[Sentence], k: int, constraints: ConstraintList | None = None
    ) -> Iterator[list[list[ScoredTree]]]:
        """As `k_best`, in lists that take seconds each; see `parse_blocks`."""
        return k_best_blocks(self, sentences, k, constraints)

    def sample_trees(
        self, sentences: Iterable[Sentence], samples: int, constraints: ConstraintList | None = None, *, seed: int = 0
    ) -> list[list[ScoredTree]]:
        """Random trees of each sentence with their symbols, independent, in proportion to their probability.

        A sentence without any tree under the grammar has ones that stand in, of log-probability -inf.
        """
        prepared = self.prepare(sentences)
        bonus = bonus_of_batch(constraints, prepared, self.device)
        return labelled_trees.sampled_trees(self, prepared, samples, seed, bonus)

    def sample(
        self, count: int, *, max_length: int = MAX_LENGTH, temperature: float = 1.0, seed: int = 0
    ) -> SampledText:
        """Random sentences with their trees, drawn given that they have at most `max_length` words.

        A run whose sentences end in `<eos>` counts it among them; a sentence ends before the first one. The
        log-probability is that of all that was drawn.
        """
        blocks = list(self.sample_blocks(count, max_length=max_length, temperature=temperature, seed=seed))
        return SampledText([tree for block in blocks for tree in block.trees], blocks[0].kept)

    def sample_blocks(
        self, count: int, *, max_length: int = MAX_LENGTH, temperature: float = 1.0, seed: int = 0
    ) -> Iterator[SampledText]:
        """The same sentences, some thousand at a time as they are drawn: any number of them in bounded memory."""
        with resource_errors("drawing sentences", DRAWING_ADVICE):
            yield from labelled_trees.sample_blocks(self, count, max_length, temperature, seed)

    def span_marginals(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None
    ) -> list[torch.Tensor]:
        """Posterior of each span (i, j) over each sentence's words as given, [words + 1, words + 1] a sentence.

        Words are counted as in constraints and in the spans of `parse`, dropped punctuation included. It is the share
        of the trees in which the words of the span that the run sees are a constituent: what `require` would leave. An
        `<eos>` that the run adds is not counted, and may be part of a constituent that ends with the last word.
        """
        return word_span_marginals(self, self.prepare(sentences), constraints)

    def chart(
        self,
        sentence: Sentence,
        constraints: Constraints | Mapping[str, Any] | None = None,
        *,
        symbols: int = 0,
    ) -> SpanChart:
        """The span marginals of one sentence over its words, with the `symbols` likeliest symbols of each span.

        A notebook shows it as a triangle; `to_svg()` gives the picture.
        """
        return chart_of(self, sentence, constraints, symbols)

    def tags(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[list[TaggedWord]]:
        """For each word its most probable preterminal, summed over all derivations, and that one's posterior."""
        return tagged_words(self, sentences, constraints)

    def entropy(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[float]:
        """Entropy (nats) of each sentence's distribution over labelled derivations; -inf where there is none."""
        return entropies(self, sentences, constraints)

    def kl_divergence(
        self, other: Run, sentences: Iterable[Sentence], constraints: ConstraintList | None = None
    ) -> list[float]:
        """KL(this ‖ other) (nats) over each sentence's labelled derivations; both need the same symbols and words."""
        return divergences(self, other, sentences, constraints)

    def symbols(self, sentences: Iterable[Sentence] | None = None, top: int = 20) -> SymbolReport:
        """The most used symbols: expected uses, likeliest children, words, examples; see `simplepcfg show`."""
        from simplepcfg.inference.inspection import describe_symbols

        return describe_symbols(self, sentences, top=top)

    def describe_symbol(self, symbol: str) -> SymbolDescription:
        """One symbol, such as "NT-12" or "T-5", by the grammar alone: its likeliest children and words."""
        from simplepcfg.inference.symbol_guide import SymbolGuide

        if self._guide is None:
            self._guide = SymbolGuide(self)
        return self._guide.describe(symbol)

    def _repr_html_(self) -> str:
        """For notebooks: what the run is, and how it learned."""
        from simplepcfg.inference.run_summary import run_html

        return run_html(self)

    def evaluate(
        self,
        data: str | PathLike[str] | Iterable[Sentence],
        name: str | None = None,
        *,
        decode: str = "mbr",
        importance: int = 0,
        labels: bool = False,
    ) -> EvaluationReport:
        """F1 and perplexity on trees (`nltk.Tree`, `SpanTree`), perplexity on sentences; or a file.

        `decode` is how the run's trees are chosen, as in `parse`. A compound model has no exact log p; `importance`
        samples of each sentence's vector z estimate it, too. A hidden Markov model has no trees, hence no F1. With
        `labels` the report also says how the symbols of the most probable trees match gold labels.
        """
        return evaluate(self, data, name or self.name, decode, importance, labels)

    def evaluate_treebank(
        self,
        treebank: Treebank,
        name: str | None = None,
        *,
        decode: str = "mbr",
        importance: int = 0,
        labels: bool = False,
    ) -> EvaluationReport:
        """F1 and perplexity on gold trees that have been prepared as this run wants them."""
        return evaluate_treebank(self, treebank, name or self.name, decode, importance, labels)

    def save(self, directory: str | PathLike[str]) -> Path:
        """Write the run into a new folder, from which `load` and every command read it."""
        from simplepcfg.training.config.files import save_config
        from simplepcfg.training.storage.run_folder import RunFolder
        from simplepcfg.training.storage.tensor_files import host_copy, write_tensor_file

        folder = RunFolder(Path(directory))
        folder.refuse_if_taken()
        with resource_errors("saving the run", "choose another folder"):
            folder.path.mkdir(parents=True, exist_ok=True)
            self.vocabulary.save(folder.vocabulary)
            weights = host_copy(self.model.state_dict())
            write_tensor_file(folder.model, weights, self.best, vocabulary=self.vocabulary.checksum)
            save_config(self.config, folder.config)
        return folder.path

    def save_pretrained(self, directory: str | PathLike[str]) -> Path:
        """As `save`, with a model card to fill in; the folder is what `push_to_hub` uploads."""
        from simplepcfg.inference.hub import write_card

        folder = self.save(directory)
        write_card(folder, folder.name, self.config.model.kind)
        return folder

    def push_to_hub(
        self,
        repository: str,
        *,
        message: str = "Add a grammar",
        private: bool = False,
        token: str | None = None,
        endpoint: str | None = None,
    ) -> str:
        """Upload the run to a model hub, such as "me/my-grammar"; the address of the commit. Needs the extra `hub`.

        A model card that lies in the run's own folder goes with it.
        """
        from shutil import copyfile
        from tempfile import TemporaryDirectory

        from simplepcfg.inference.hub import publish, write_card

        with TemporaryDirectory(prefix="simplepcfg-") as temporary:
            folder = self.save(Path(temporary) / "run")
            if self.directory is not None and (self.directory / "README.md").is_file():
                copyfile(self.directory / "README.md", folder / "README.md")
            write_card(folder, repository, self.config.model.kind)
            return publish(folder, repository, message, private, token, endpoint)

    @classmethod
    def from_pretrained(
        cls,
        name: str | PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        endpoint: str | None = None,
        device: str = "auto",
    ) -> Run:
        """A run from a folder, an installed grammar by its name, or one of a model hub (needs the extra `hub`)."""
        from simplepcfg.inference.hub import fetch
        from simplepcfg.training.storage.run_folder import load_run

        loaded = load_run(fetch(fspath(name), revision, token, endpoint), device)
        return cls(loaded.model, loaded.vocabulary, loaded.config, directory=loaded.directory, best=loaded.best)

    def first_too_long(self, sentences: Sequence[Sentence]) -> tuple[int, str] | None:
        """The index of the first sentence whose chart no memory of this machine could hold, and why; or None."""
        for index, (words, tags) in enumerate(split_sentences(sentences, self.preprocessing)):
            if hopeless(self, len(words) + 1) is None:  # of any of its words, and an <eos>
                continue
            reason = hopeless(self, len(self.preprocessing.apply(words, tags).tokens))
            if reason is not None:
                return index, reason
        return None

    @property
    def cells_a_batch(self) -> int:
        """How large a batch may be, as sentences times words squared."""
        return cells_a_batch(self)
