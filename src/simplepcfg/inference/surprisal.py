"""Surprisal of each original word of sentences under a run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from simplepcfg.data.batching import Batch
from simplepcfg.errors import NumericalError
from simplepcfg.evaluation.likelihood import MAX_CELLS
from simplepcfg.grammars import SimpleGrammar
from simplepcfg.grammars.emissions import tabulated
from simplepcfg.grammars.prefix import next_word_entropies, surprisal_parts, surprisals
from simplepcfg.inference.batches import cells_a_batch, in_batches
from simplepcfg.inference.sentences import Sentence
from simplepcfg.inference.surprisal_tables import SurprisalTable, SurprisalTables
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.linguistics.word_model import word_records

Values = tuple[float, float | None, float, float]  # surprisal, entropy, and the two parts of surprisal
# Bytes of the chart of a batch on a CPU, a float32 number a cell for each nonterminal.
CHART_BYTES = 1 << 30
# Larger batches hardly pay: with 1024 nonterminals, twelve times as large took 4 % less time and twice the memory.
CELLS_A_NONTERMINAL = 16
# The emissions of all words are held on a CPU if they need at most so many bytes.
EMISSION_BYTES = 1 << 29


def surprisal_records(
    run: TrainedModel, sentences: Iterable[Sentence], ends: bool, entropies: bool, pruned: bool
) -> SurprisalTables:
    """Return the surprisal of each word of each sentence and, with `ends`, of an added `<eos>` and of the end."""
    prepared = run.prepare(sentences)
    # Without ends, an added <eos> is left out; a sentence of which nothing is left has no end to ask for.
    tokens = [item.tokens if ends else item.tokens[: len(item.kept)] for item in prepared]
    # A pruned chart has half of the rows, and other temporary tensors are small.
    cells, emissions = _cells_a_batch(run) * (4 if pruned else 1), run.grammar.emissions
    errors: list[float] = []
    if entropies and run.device.type == "cpu" and sum(len(item) ** 2 for item in tokens) > cells:
        emissions = tabulated(emissions, EMISSION_BYTES)  # each of several batches needs those of all words

    def compute(batch: Batch) -> list[list[Values]]:
        log_emissions = run.grammar.log_emissions(batch.words, batch.lengths)
        lengths = batch.lengths.tolist()
        if pruned:
            states, lost = run.grammar.pruned_prefix_states(log_emissions, batch.lengths, ends=ends)
            errors.extend(value for row, n in zip(lost.tolist(), lengths, strict=True) for value in row[: n + ends])
        else:
            states = run.grammar.prefix_states(log_emissions, batch.lengths, ends=ends)
        parts = surprisal_parts(states, log_emissions, batch.lengths)
        expected = [[None] * (n + 1) for n in lengths]
        if entropies:
            expected = next_word_entropies(states, emissions).tolist()
        columns = [surprisals(states.log_prefix).tolist(), expected, *(part.tolist() for part in parts)]
        values = [list(zip(*(column[b][:n] for column in columns), strict=True)) for b, n in enumerate(lengths)]
        if ends:
            last = (states.log_prefix - states.log_sentence).nan_to_num(math.inf, posinf=math.inf).tolist()
            for b, n in enumerate(lengths):  # no word is chosen at the end: its surprisal is syntactic
                values[b].append((last[b][n], expected[b][n], last[b][n], 0.0))
        return values

    answers = in_batches(run, tokens, compute, list[Values], least=1, cells=cells)
    if any(math.isnan(values[0]) for answer in answers for values in answer):
        raise NumericalError(f"{run.name}: surprisals are NaN; its weights are damaged, train it again")
    tables = SurprisalTables(
        SurprisalTable(word_records(item, run.vocabulary, values, run.spelling_log_probability))
        for item, values in zip(prepared, answers, strict=True)
    )
    tables.errors = errors
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
    return max(usual, min(MAX_CELLS, CELLS_A_NONTERMINAL * states, CHART_BYTES // (4 * states)))
