"""`Run`: a trained grammar that scores, parses, samples, inspects and evaluates sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from simplepcfg.data.constraints import Constraints
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.report import EvaluationReport
from simplepcfg.evaluation.treebank import Treebank
from simplepcfg.files import write_text
from simplepcfg.inference import derivations, marginals
from simplepcfg.inference.bracketings import Bracketing, most_probable_bracketings
from simplepcfg.inference.completion import MAX_LENGTH, Completion, complete
from simplepcfg.inference.derivations import SampledText, ScoredTree
from simplepcfg.inference.evaluation import evaluate
from simplepcfg.inference.inspection import SymbolReport, describe_symbols
from simplepcfg.inference.label_mapping import LabelMapping, weights_fingerprint
from simplepcfg.inference.marginals import ConstraintList, TaggedWord
from simplepcfg.inference.parsing import parse_spans
from simplepcfg.inference.scoring import PrunedScore, sentence_scores
from simplepcfg.inference.sentences import Sentence, nltk_trees, region_texts
from simplepcfg.inference.span_chart import SpanChart, make_chart
from simplepcfg.inference.surprisal import surprisal_records
from simplepcfg.inference.surprisal_tables import RegionTables, SurprisalTables
from simplepcfg.inference.symbol_guide import SymbolDescription, SymbolGuide
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.linguistics.regions import region_surprisals
from simplepcfg.ops.modes import methods_without_modes
from simplepcfg.progress import stage
from simplepcfg.runs.config.files import save_config
from simplepcfg.runs.failures import resource_errors
from simplepcfg.runs.processes import leave_threads_behind
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import host_copy, write_tensor_file

if TYPE_CHECKING:
    from nltk.tree import Tree

DRAWING_ADVICE = "draw fewer at a time, or lower max_length"


@methods_without_modes
class Run(TrainedModel):
    """A trained model with its vocabulary and preprocessing. Sentences are strings or lists of words.

        run = simplepcfg.load("runs/demo")
        run.parse(["the old man sees a dog ."])[0].pretty_print()
        run.score(["the old man sees a dog ."])   # [-21.4], natural log-probabilities

    Methods raise InputError for arguments or for questions that the kind of model does not support, and ResourceError
    for sentences that do not fit into memory.
    """

    def score(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[float]:
        """Return the natural log-probability of each sentence, in order; -inf for fewer than two words.

        The probability of an unknown word is that of `<unk>` times that of its spelling, unless the run was loaded with
        a closed vocabulary.

        Compound models have no exact log-probability; theirs is log p(x | posterior mean) − KL. With constraints it is
        that of the trees that they allow, with their bonuses.

            run.score(["the dog barks .", "a cat sees the dog ."])   # [-14.2, -18.9]
        """
        scores = sentence_scores(self, *marginals.prepare_constrained(self, sentences, constraints))
        return [score.log_probability for score in scores]

    def pruned_score(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None
    ) -> list[PrunedScore]:
        """Return the log-probability of each sentence as far as probable spans go, with its estimated error.

        On a CPU, grammars of 512 nonterminals or more take a third of the time of `score`; others are exact, and so is
        log p with constraints.

            run.pruned_score(["the dog barks ."])   # [PrunedScore(log_probability=-14.2, error=0.0)]
        """
        return sentence_scores(self, *marginals.prepare_constrained(self, sentences, constraints), pruned=True)

    def surprisal(
        self,
        sentences: Iterable[Sentence],
        *,
        ends: bool = True,
        entropies: bool = False,
        pruned: bool = False,
    ) -> SurprisalTables:
        """Return, for each sentence, the surprisal of each word and of the end, in nats.

        They are exact, over all trees: the surprisals of a sentence and its end sum to −log p of the sentence. Each is
        the sum of `syntactic_surprisal` and `lexical_surprisal`, neither of which is negative.

            for item in run.surprisal(["the dog barks ."])[0]:
                print(item.word, item.surprisal)

        `to_frame()` of the answer is a pandas data frame. With `ends=False` the records of the end, and of an `<eos>`
        that is added, are left out, which takes less time. With `entropies` records also have the entropy of what could
        have stood in the word's place and by how much it falls, which takes about as long again. `pruned` leaves out
        improbable nodes: on a CPU, grammars of 512 nonterminals or more take about a third of the time, and `errors` of
        the answer are estimates of by how much the surprisals are too large; docs/surprisal.md has measured ones.
        """
        return surprisal_records(self, sentences, ends, entropies, pruned)

    def region_surprisal(self, sentences: Iterable[Sequence[str]], *, entropies: bool = False) -> RegionTables:
        """Return, for each sentence, the surprisal of each of its regions, in nats.

        A sentence is a list of the texts of its regions, as written, `["The horse", "fell."]`; they are tokenised as
        one running sentence, and the record of a region has the sum over its tokens.
        """
        return RegionTables(region_surprisals(self, region_texts(sentences), entropies=entropies))

    def complete(
        self,
        prefix: str | Sequence[str],
        k: int = 10,
        *,
        samples: int = 0,
        seed: int = 0,
        max_length: int = MAX_LENGTH,
    ) -> Completion:
        """Return the `k` likeliest next words after a prefix, and `samples` random continuations.

        `max_length` is the largest number of words of a prefix and a random continuation together; "" is the empty
        prefix.

            run.complete("the old man", k=3).words   # [("sees", 0.21), …]
        """
        with resource_errors("completing a sentence", DRAWING_ADVICE):
            return complete(self, prefix, k, samples, seed, max_length)

    def parse(
        self,
        sentences: Iterable[Sentence],
        constraints: ConstraintList | None = None,
        *,
        decode: str = "mbr",
        labels: bool = True,
    ) -> list[Tree]:
        """Return the tree of each sentence over its original words, in order.

        `decode="mbr"` gives the tree with the largest sum of span marginals, with labels such as `NP` if the run has
        learned any, in which nodes that are probably no constituents are left out; with `labels=False` or without
        learned labels, it is a binary tree of `X`. "exact-mbr" counts all spans and symbols, also those that a large
        grammar leaves out on a CPU because they are improbable. "viterbi" gives the most probable tree with its
        symbols, `(NT-12 (T-5 the) …)`. Dropped punctuation is attached to the lowest node around it. One word is the
        trivial tree `(X (T word))`, an empty sentence a tree without children. `constraints` has one entry a sentence,
        such as `{"require": [[0, 3]], "forbid": [[3, 5]], "bonus": [[0, 2, 1.5]]}`, or None.

            run.parse(["the dog barks ."], decode="viterbi")[0].pretty_print()
        """
        return nltk_trees(self.parse_spans(sentences, constraints, decode=decode, labels=labels))

    def parse_spans(
        self,
        sentences: Iterable[Sentence],
        constraints: ConstraintList | None = None,
        *,
        decode: str = "mbr",
        labels: bool = True,
    ) -> list[SpanTree]:
        """Return the trees of `parse` as arrays of spans, whose depth is not limited."""
        return parse_spans(self, *marginals.prepare_constrained(self, sentences, constraints), decode, labels)

    def k_best(
        self, sentences: Iterable[Sentence], k: int, constraints: ConstraintList | None = None
    ) -> list[list[ScoredTree]]:
        """Return the `k` most probable trees of each sentence with their symbols, best first, or all if fewer exist.

        A sentence of probability 0 has one placeholder tree of log-probability -inf.

            [item.log_probability for item in run.k_best(["the dog barks ."], k=5)[0]]
        """
        return derivations.k_best_trees(self, *marginals.prepare_constrained(self, sentences, constraints), k)

    def sample_trees(
        self, sentences: Iterable[Sentence], samples: int, constraints: ConstraintList | None = None, *, seed: int = 0
    ) -> list[list[ScoredTree]]:
        """Return independent random trees of each sentence from its distribution over derivations.

        A sentence of probability 0 has placeholder trees of log-probability -inf.

            run.sample_trees(["the dog barks ."], samples=3, seed=1)[0][0].tree
        """
        prepared, bonus = marginals.prepare_constrained(self, sentences, constraints)
        return derivations.sampled_trees(self, prepared, bonus, samples, seed)

    def bracketings(
        self,
        sentence: Sentence,
        k: int = 5,
        constraints: Constraints | Mapping[str, object] | None = None,
        *,
        samples: int = 200,
        seed: int = 0,
        between: Callable[[], object] = lambda: None,
    ) -> list[Bracketing]:
        """Return the `k` likeliest trees without symbols that occur among random trees, best first.

        The probability of each, given the sentence, is exact: the sum over all derivations with these brackets. A
        sentence of probability 0 has none. `between` is called between the parts of the computation.

            run.bracketings("she saw the girl with the telescope")[0].probability
        """
        return most_probable_bracketings(self, sentence, k, constraints, samples, seed, between)

    def sample(
        self, count: int, *, max_length: int = MAX_LENGTH, temperature: float = 1.0, seed: int = 0
    ) -> SampledText:
        """Return random sentences with their trees, conditioned on at most `max_length` words.

        A run whose sentences end in `<eos>` counts it as a word; a sentence ends before the first `<eos>`. The
        log-probability is that of everything that was drawn.

            run.sample(5, max_length=20, seed=1).trees[0].tree
        """
        blocks = list(self.sample_blocks(count, max_length=max_length, temperature=temperature, seed=seed))
        return SampledText([tree for block in blocks for tree in block.trees], blocks[0].kept)

    def sample_blocks(
        self, count: int, *, max_length: int = MAX_LENGTH, temperature: float = 1.0, seed: int = 0
    ) -> Iterator[SampledText]:
        """Yield the sentences of `sample`, some thousand at a time, so that any number takes bounded memory."""
        with resource_errors("drawing sentences", DRAWING_ADVICE):
            yield from derivations.sample_blocks(self, count, max_length, temperature, seed)

    def span_marginals(
        self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None
    ) -> list[torch.Tensor]:
        """Return the marginal of each span (i, j) over each sentence's original words, [words + 1, words + 1].

        Words are counted as in constraints and in the spans of `parse`, dropped punctuation included. A marginal is the
        probability that the words of the span, without dropped ones, are a constituent. An `<eos>` that the run adds is
        not counted, and may be part of a constituent that ends with the last word.

            run.span_marginals(["the dog barks ."])[0][0, 2]   # of "the dog"
        """
        return marginals.word_span_marginals(self, self.prepare(sentences), constraints)

    def chart(
        self,
        sentence: Sentence,
        constraints: Constraints | Mapping[str, object] | None = None,
        *,
        symbols: int = 0,
    ) -> SpanChart:
        """Return the span marginals of one sentence, with the `symbols` likeliest symbols of each span.

        A notebook shows it as a triangle; `to_svg()` returns the picture.
        """
        return make_chart(self, sentence, constraints, symbols)

    def depths(self, sentences: Iterable[Sentence]) -> list[list[float | None]]:
        """Return the expected number of constituents of two words or more over each word, in trees of the sentence.

        An added `<eos>` counts as a word of them. None for dropped punctuation, and for a run without trees.
        """
        return marginals.depths(self, sentences)

    def tags(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[list[TaggedWord]]:
        """Return the most probable preterminal of each word, by its marginal over all derivations, and the marginal."""
        return marginals.tagged_words(self, sentences, constraints)

    def entropy(self, sentences: Iterable[Sentence], constraints: ConstraintList | None = None) -> list[float]:
        """Return the entropy (nats) of each sentence's labelled derivations; -inf for probability 0."""
        return marginals.entropies(self, sentences, constraints)

    def symbols(self, sentences: Iterable[Sentence] | None = None, top: int = 20) -> SymbolReport:
        """Return the `top` most used symbols with expected uses, likeliest children, words and examples.

        Uses are counted over `sentences`, or over the run's own text.
        """
        return describe_symbols(self, sentences, top=top)

    def describe_symbol(self, symbol: str) -> SymbolDescription:
        """Return the likeliest children and words of one symbol, such as "NT-12" or "T-5", by the grammar alone."""
        return self._symbol_guide.describe(symbol)

    def symbol_name(self, symbol: str) -> str:
        """Return typical words of a symbol such as "NT-12" or "T-5", by which a reader can tell it from others."""
        return self._symbol_guide.name(symbol)

    @cached_property
    def _symbol_guide(self) -> SymbolGuide:
        return SymbolGuide(self)

    def _repr_html_(self) -> str:
        """Return a summary and the learning curve, for notebooks."""
        from simplepcfg.inference.run_summary import run_html

        return run_html(self)

    def evaluate(
        self,
        data: str | PathLike[str] | Treebank | Iterable[Sentence],
        name: str | None = None,
        *,
        decode: str = "mbr",
        labels: bool = False,
    ) -> EvaluationReport:
        """Return F1 and perplexity on trees (`nltk.Tree`, `SpanTree`), or perplexity on sentences, also of a file.

        A `Treebank` must have been prepared by this run's preprocessing. `decode` chooses trees as in `parse`. A
        hidden Markov model has no trees and hence no F1. With `labels` the report also says how the symbols of the most
        probable trees match gold labels. A CoNLL-U file with heads is a dependency treebank: recall of its subtrees and
        crossing brackets take the place of F1.

            run.evaluate("test.trees").sentence_f1
            run.evaluate("test.conllu").dependencies.recall
        """
        return evaluate(self, data, name or self.name, decode, labels)

    def save(self, directory: str | PathLike[str]) -> Path:
        """Write the run into a new folder, which `load` and every command can read, and return its path.

        Labels are left out if the weights have changed since they were learned. Raises InputError if the folder holds a
        run already.
        """
        folder = RunFolder(Path(directory))
        folder.refuse_if_taken()
        folder.refuse_foreign_files()
        with resource_errors("saving the run", "choose another folder"):
            folder.path.mkdir(parents=True, exist_ok=True)
            self.vocabulary.save(folder.vocabulary)
            weights = host_copy(self.model.state_dict())
            write_tensor_file(folder.model, weights, self.best, vocabulary=self.vocabulary.checksum)
            if self.spelling is not None:
                write_tensor_file(folder.spelling, self.spelling.to_tensors(), {})
            if self.labels is not None and self._labels_fit():
                write_text(folder.labels, self.labels.to_json())
            save_config(self.config, folder.config)
        return folder.path

    def _labels_fit(self) -> bool:
        """Return whether the labels, if there are any, are of these weights: elsewhere symbols mean something else."""
        return self.labels is None or self.labels.model in (None, weights_fingerprint(self.model))


def load(directory: str | PathLike[str], device: str = "auto", *, closed_vocabulary: bool = False) -> Run:
    """Load the best model of a run folder, ready to score, parse and evaluate, onto `device`.

    With `closed_vocabulary` scores and surprisals of unknown words are those of `<unk>`, whatever their spelling, as
    perplexities always are.

    Raises InputError if the folder is no complete run or a file is damaged.

        run = load("runs/demo")
        run.score(["the old man sees a dog ."])
    """
    if not isinstance(directory, str | PathLike):
        raise InputError(f"{directory!r} is no run; give the folder of a run or the name of an installed grammar")
    leave_threads_behind()
    with stage(f"loading {directory}"):
        loaded = load_run(Path(directory), device)
    labels = RunFolder(loaded.directory).labels
    run = Run(
        loaded.model,
        loaded.vocabulary,
        loaded.config,
        directory=loaded.directory,
        best=loaded.best,
        spelling=loaded.spelling,
        closed_vocabulary=closed_vocabulary,
        labels=LabelMapping.load(labels) if labels.is_file() else None,
    )
    if not run._labels_fit():
        raise InputError(f"{labels}: is of another run; remove it, and `evaluate --write-labels` writes its own")
    return run
