"""Surprisal of each original word of sentences under a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from simplepcfg.data.batching import Batch
from simplepcfg.data.preprocessing import Prepared
from simplepcfg.data.vocabulary import EOS, UNK
from simplepcfg.errors import NumericalError
from simplepcfg.evaluation.likelihood import MAX_CELLS
from simplepcfg.evaluation.psycholinguistics.word_model import END, WordSurprisal
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.grammars.prefix import next_word_entropies, surprisals
from simplepcfg.inference.batches import cells_a_batch, in_batches
from simplepcfg.inference.sentences import Sentence
from simplepcfg.inference.surprisal_tables import SurprisalTable, SurprisalTables
from simplepcfg.inference.trained_model import TrainedModel

# Bytes of the chart of a batch on a CPU, and the float32 numbers of a cell for each nonterminal.
CHART_BYTES, FLOATS_A_CELL = 1 << 30, 2
# With 1024 nonterminals the usual batches stay: twelve times their size took 4 % less time and twice the memory.
CELLS_A_NONTERMINAL = 8


def surprisal_records(run: TrainedModel, sentences: Iterable[Sentence]) -> SurprisalTables:
    """Return the surprisal of each word of each sentence; see ``Run.surprisal``."""
    prepared = run.prepare(sentences)

    def compute(batch: Batch) -> list[tuple[list[float], list[float]]]:
        states = run.grammar.prefix_states(batch.words, batch.lengths)
        entropies = next_word_entropies(states, run.grammar.emissions).tolist()
        words = surprisals(states.log_prefix).tolist()
        ends = (states.log_prefix - states.log_sentence).nan_to_num(math.inf, posinf=math.inf).tolist()
        lengths = batch.lengths.tolist()
        return [([*words[b][:n], ends[b][n]], entropies[b][: n + 1]) for b, n in enumerate(lengths)]

    # A sentence of which nothing is left has no end to ask for either.
    tokens = [item.tokens for _, item in prepared]
    found = in_batches(run, tokens, compute, lambda: ([], []), least=1, cells=_cells_a_batch(run))
    if any(math.isnan(value) for values, _ in found for value in values):
        raise NumericalError(f"{run.name}: surprisals are NaN; its weights are damaged, train it again")
    return SurprisalTables(
        _records(run, words, item, *values) for (words, item), values in zip(prepared, found, strict=True)
    )


def syntactic_surprisals(run: TrainedModel, sentences: Iterable[Sentence]) -> list[list[float | None]]:
    """Return the syntactic surprisal of each word of each sentence; see ``Run.syntactic_surprisal``."""
    prepared = run.prepare(sentences)

    def compute(batch: Batch) -> list[list[float]]:
        values = run.grammar.syntactic_surprisal(batch.words, batch.lengths).tolist()
        return [row[:n] for row, n in zip(values, batch.lengths.tolist(), strict=True)]

    found = in_batches(
        run, [item.tokens for _, item in prepared], compute, list[float], least=1, cells=_cells_a_batch(run)
    )
    tables: list[list[float | None]] = []
    for (words, item), values in zip(prepared, found, strict=True):
        table: list[float | None] = [None] * len(words)
        for place, value in zip(item.kept, values, strict=False):  # an <eos> that was added has no place
            table[place] = value
        tables.append(table)
    return tables


def _cells_a_batch(run: TrainedModel) -> int:
    """Return the largest size of a batch, as sentences × words².

    No gradient is held here. On a CPU batches are therefore larger than elsewhere where the grammar is large: the
    products of a width have few rows otherwise, and much time would go into reading the rules for each of them.
    """
    usual = cells_a_batch(run)
    if run.device.type == "cuda" or not (run.shares_rules and isinstance(run.grammar, SimpleGrammar)):
        return usual
    states = run.grammar.nonterminals
    return max(usual, min(MAX_CELLS, CELLS_A_NONTERMINAL * states, CHART_BYTES // (FLOATS_A_CELL * 4 * states)))


def _records(
    run: TrainedModel, words: Sequence[str], item: Prepared, values: list[float], entropies: list[float]
) -> SurprisalTable:
    """Return a record for every original word, then for an added `<eos>`, then for the end."""
    tokens = [token if token in run.vocabulary else UNK for token in item.tokens]
    scored = [*zip(tokens, values, entropies, strict=False)]
    records = SurprisalTable(WordSurprisal(word, None, None, None) for word in words)
    for index, place in enumerate(item.kept):
        records[place] = WordSurprisal(words[place], *scored[index])
    records += [WordSurprisal(EOS, *rest) for rest in scored[len(item.kept) :]]
    if values:
        records.append(WordSurprisal(END, END, values[-1], entropies[-1]))
    return records
