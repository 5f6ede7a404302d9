"""`simplepcfg score`: how probable is each sentence."""

import math
from collections.abc import Sequence
from itertools import chain, count
from typing import TYPE_CHECKING

from simplepcfg.cli import answers
from simplepcfg.cli.materials import read_items
from simplepcfg.cli.options import Json, SentencesRequest, refuse_baseline
from simplepcfg.cli.output import note, offset_cells, table_row, write_json, write_lines
from simplepcfg.cli.requests import arg, flag, opt, options, takes
from simplepcfg.cli.sentence_stream import Answer, Chunk, Part, SentenceStream
from simplepcfg.errors import InputError, counted

if TYPE_CHECKING:
    from simplepcfg.data.inputs import Item
    from simplepcfg.linguistics.word_model import WordModel, WordSurprisal

SUMMARY = "Print the log-probability of each sentence, or of each word."
NOTHING = "NA"
Cell = str | float | int | None  # of a table; JSON has numbers and null where text has digits and NA
Row = dict[str, Cell]
EXACT = "natural log-probability"
# What a compound run has instead; docs/models.md compares it with log p.
IMPOSSIBLE = (
    "fewer than two words (dropped punctuation is not counted) have no tree; a run trained with data.eos = true scores "
    "such sentences, too"
)
INEXACT = "no exact log-probability: log p(x | posterior mean) - KL"


@options
class ScoreOptions:
    """Options of this command alone, which its help has first."""

    run: str = arg("RUN", "Folder of a trained run, english, or an n-gram model.")
    surprisal: bool = flag("--surprisal", "A table of every word's surprisal, in bits.")
    pruned: bool = flag("--pruned", "Leave out improbable spans: faster, and a remark tells the estimated error.")
    entropy: bool = flag("--entropy", "With --surprisal, also next-word entropies, which take time.")
    regions: bool = flag("--regions", "FILE is a table of words or regions; add their surprisals in bits.")
    spillover: int = opt("--spillover", "N", "Also surprisals of the N regions before.", 0, min=0, max=20)
    json: Json = None
    closed_vocabulary: bool = flag("--closed-vocabulary", "Unknown words count as <unk>, whatever their spelling.")


@options
class ScoreRequest(SentencesRequest, ScoreOptions):
    """What to score, by what, and in which form."""


@takes(ScoreRequest)
def command(request: ScoreRequest) -> None:
    """Print the natural log-probability (nats) of each sentence, one number a line, in the order of the input.

    A sentence of fewer than two words has no tree, hence -inf (unless the run adds <eos>). A compound run has log p(x |
    posterior mean) - KL, as in evaluate. The probability of an unknown word is that of <unk> times that of its spelling
    among unknown words, so that sentences with different unknown words can be compared. FILE may be a folder or a
    pattern, too, and there may be several. A sentence of more than --max-words words has NA, and a remark at the end
    says so.

    With --surprisal, print a tab-separated table instead, with a row for each word and one, <end>, for the end of each
    sentence (docs/surprisal.md). surprisal_bits is -log2 P(word | the words before it), the sum of
    syntactic_surprisal_bits, by how much the word changes what is known of its preterminal, and lexical_surprisal_bits,
    the choice of the word. --entropy adds columns, and takes about as long again. token is the word as
    the model sees it; words that the run drops have NA. A word with a quotation mark is quoted and the mark doubled, as
    pandas.read_csv(sep="\\t") reads it. Further columns are the file where there are several, the sent_id of CoNLL-U
    and, with --offsets, the characters of the word.

    With --pruned, constituents that are improbable given the words up to their end are left out: on a CPU a large
    grammar takes a third of the time, and a remark estimates by how much log p is too small, or surprisals too large.

    With --out, answers go into a folder, a file for each input file or each --part-size sentences of it, by all cores
    or GPUs; if it is killed, the same command goes on.

    With --regions, FILE is a table with a header, separated by tabs, commas or semicolons: a row for each word or
    region as readers saw it, with columns item and word or region, perhaps condition, sentence and zone, and any
    others. Rows of the same item, condition and sentence make one sentence. The printed table has these columns, those
    of --surprisal and some more (docs/linguists.md).

    \b
    Example:
      echo "the dog sees a cat" | simplepcfg score runs/demo
      simplepcfg score runs/demo sentences.txt > scores.txt
      simplepcfg score runs/demo sentences.txt --surprisal > words.tsv
      simplepcfg score runs/demo sentences.txt --surprisal --json -
      simplepcfg score english story.txt --raw
      simplepcfg score english corpus/*.txt.gz --surprisal --out words/
      simplepcfg score runs/demo items.tsv --regions --spillover 2 > scored.tsv
    """
    refuse_baseline(request.run)
    if request.regions and (request.surprisal or request.raw):
        raise InputError(f"--regions reads a table; leave out {'--surprisal' if request.surprisal else '--raw'}")
    if request.regions and (request.offsets or request.max_words or len(request.files or []) > 1):
        raise InputError("--regions reads one table, as a whole; leave out other files, --offsets and --max-words")
    if request.offsets and not request.surprisal:
        raise InputError("--offsets adds columns to the table of words; give --surprisal with it")
    if request.entropy and not request.surprisal:
        raise InputError("--entropy adds columns to the table of words; give --surprisal with it")
    if request.pruned and request.regions:
        raise InputError("--pruned is for sentences and their words; leave it out, or --regions")
    if request.spillover and not request.regions:
        raise InputError("--spillover adds columns to a table; give --regions with it")
    suffix = ".tsv" if request.surprisal else ".scores"
    write_json(request.json, answers.answer(request, prepare, [request.run], suffix, "scoring"))


def prepare(request: ScoreRequest) -> Answer:
    """Load the model, and return what writes the scores of sentences and returns its rows, for JSON."""
    from simplepcfg.inference.word_models import load_word_model

    model = load_word_model(request.run, request.device, closed_vocabulary=request.closed_vocabulary)
    write = _print_surprisals if request.surprisal else _print_scores

    def answer(part: Part | None) -> list[Row]:
        if request.regions:
            return _score_regions(request, model)
        with SentenceStream(request, "scoring", model, part) as stream:
            return write(request, stream, model)

    return answer


def _score_regions(request: ScoreRequest, model: "WordModel") -> list[Row]:
    """Print a table of words or regions with their surprisals; return its rows, for JSON."""
    from simplepcfg.linguistics.item_tables import ADDED_COLUMNS, equal_conditions_remark, score_item_table, scored_rows

    table = read_items((request.files or ["-"])[0], request.quiet)
    scores = score_item_table(model, table, entropies=True)
    header, *rows = scored_rows(table, scores, request.spillover)
    if request.json != "-":
        write_lines(map(table_row, [header, *rows]))
    if (remark := equal_conditions_remark(table, scores)) is not None:
        note(remark, request.quiet)
    texts = {*table.columns, ADDED_COLUMNS[0]}
    return [
        {name: cell if name in texts else _number(cell) for name, cell in zip(header, row, strict=True)} for row in rows
    ]


def _print_surprisals(request: ScoreRequest, stream: SentenceStream, model: "WordModel") -> list[Row]:
    """Print a row for each word; return the rows if they are to be written as JSON."""
    from simplepcfg.inference.run import Run
    from simplepcfg.linguistics.word_model import ENTROPIES, INFORMATION, WordSurprisal

    fields = [name for name in INFORMATION if request.entropy or name not in ENTROPIES]
    names = ["sentence", "position", "word", "token", *(f"{name}_bits" for name in fields)]
    numbers, held, errors = count(stream.first + 1), list[Row](), list[float]()

    def surprisals(chunk: Chunk) -> "Sequence[Sequence[WordSurprisal]]":
        if not isinstance(model, Run):
            return model.surprisal(chunk, entropies=request.entropy)
        tables = model.surprisal(chunk, entropies=request.entropy, pruned=request.pruned)
        errors.extend(error / math.log(2) for error in tables.errors)
        return tables

    def lines(item: "Item", records: "Sequence[WordSurprisal] | None") -> list[str]:
        shown = [WordSurprisal(word, None, None, None) for word in item.words] if records is None else records
        sentence, place = next(numbers), stream.place(item).values()
        rows: list[list[Cell]] = []
        for index, record in enumerate(shown):
            nats = (getattr(record, name) for name in fields)
            bits = (None if value is None else value / math.log(2) for value in nats)
            offsets = map(_number, offset_cells(item.offsets, index))
            rows.append([sentence, index + 1, record.word, record.token, *bits, *place, *offsets])
        if request.json is not None:
            held.extend(dict(zip(names, row, strict=True)) for row in rows)
        return [] if request.json == "-" else [table_row(map(_cell, row)) for row in rows]

    # The empty chunk at the end gives an input without sentences its header, too.
    for number, tables in enumerate(chain(map(surprisals, stream.chunks()), [()])):
        if number == 0:  # not before something was read and computed: a refusal prints nothing
            names += [*stream.columns, *(["start", "end"] if request.offsets else [])]
            write_lines(["\t".join(names)] if request.json != "-" else [])
        stream.write(tables, lines)
    _tell_errors("surprisals are too large by about {:.2g} bits each, at most {:.2g}", errors, request.quiet)
    return held


def _print_scores(request: ScoreRequest, stream: SentenceStream, model: "WordModel") -> list[Row]:
    """Print a number for each sentence; return rows if they are to be written as JSON."""
    from simplepcfg.inference.run import Run

    exact = not isinstance(model, Run) or model.shares_rules
    if not exact or request.json != "-":  # the keys of JSON name the unit
        stream.remark = f"unit: nats ({EXACT if exact else INEXACT}), one number a line"
    errors: list[float] = []

    def score(chunk: Chunk) -> list[float]:
        if not (request.pruned and isinstance(model, Run)):
            return model.score(chunk)
        pruned = model.pruned_score(chunk)
        errors.extend(each.error for each in pruned)
        return [each.log_probability for each in pruned]

    impossible, numbers = 0, count(stream.first + 1)
    held: list[Row] = []

    def lines(item: "Item", value: float | None) -> list[str]:
        nonlocal impossible
        impossible += value == -math.inf
        if request.json is not None:
            held.append({"sentence": next(numbers), **stream.place(item), "log_probability_nats": value})
        return [] if request.json == "-" else [_cell(value)]

    for values in map(score, stream.chunks()):
        stream.write(values, lines)
    _tell_errors("log p is too small by about {:.2g} nats each, at most {:.2g}", errors, request.quiet)
    if impossible:
        one = impossible == 1
        reason = f"{'it has' if one else 'they have'} no words" if model.preprocessing.eos else IMPOSSIBLE
        note(f"-inf for {counted(impossible, 'sentence')}: {reason}", request.quiet)
    return held


def _tell_errors(remark: str, errors: Sequence[float], quiet: bool) -> None:
    """Tell the mean and the largest of estimated errors."""
    if errors:
        note("without improbable spans, " + remark.format(sum(errors) / len(errors), max(errors)), quiet)


def _cell(value: Cell) -> str:
    return NOTHING if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _number(cell: str) -> float | int | None:
    """Return a cell of numbers as JSON has it; infinity becomes null when it is written."""
    return None if cell == NOTHING else int(cell) if cell.isdigit() else float(cell)
