"""`simplepcfg complete`: what may come after the beginning of a sentence."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Json, Quiet, refuse_baseline
from simplepcfg.cli.output import note, table_row, write_json, write_lines
from simplepcfg.cli.requests import arg, flag, opt

if TYPE_CHECKING:
    from simplepcfg.inference.completion import Completion

SUMMARY = "Print the likeliest next words after a beginning."
CUT_OFF = "…"
# Below this much, sentences that never end are worth a remark.
SURELY_ENDS = 0.999


def command(
    run: str = arg("RUN", "Folder of a trained run, or english."),
    words: list[str] | None = arg("WORDS", "The beginning of a sentence; without it, the likeliest first words.", None),
    k: int = opt("--top -k", "K", "How many next words to list.", 10, min=0),
    samples: int = opt("--samples", "S", "Draw this many continuations.", 0, min=0),
    seed: int = flag("--seed", "Seed of the drawn continuations.", 0),
    max_length: int = opt("--max-length", "WORDS", "Most words of a beginning with its continuation.", 40, min=1),
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print the likeliest next words with their probabilities, tab-separated, and that of the end (<end>).

    The probabilities are exact: sums over all trees of all sentences that begin so. Continuations (--samples) are drawn
    word by word from the same distributions, and stand below, one a line; one that was cut off ends in "…".

    \b
    Example:
      simplepcfg complete runs/demo "the old dog"
      simplepcfg complete runs/demo "the old dog" --samples 5 --seed 1
    """
    from simplepcfg.grammars import HiddenMarkovModel
    from simplepcfg.inference.run import load

    refuse_baseline(run)
    model = load(run, device)
    completion = model.complete(" ".join(words or []), k, samples=samples, seed=seed, max_length=max_length)
    for remark in remarks(completion):
        note(remark, quiet)
    # Every sentence of a Markov chain ends.
    is_chain = isinstance(model.grammar, HiddenMarkovModel)
    if not is_chain and (ends := float(model.grammar.termination_probability())) < SURELY_ENDS:
        note(f"only {100 * ends:.3g} % of this grammar's probability is on sentences that ever end", quiet)
    if json != "-":
        write_lines(rows(completion))
    write_json(json, as_json(completion))


def rows(completion: "Completion") -> Iterator[str]:
    """Yield the lines of the table, and below it the continuations that were drawn."""
    yield "word\tprobability"
    for word, probability in completion.words:
        yield table_row([word, f"{probability:.6f}"])
    yield f"<end>\t{completion.end:.6f}"
    if completion.samples:
        yield ""
    for sample in completion.samples:
        yield " ".join([*completion.tokens, *sample.words, *([] if sample.ended else [CUT_OFF])])


def remarks(completion: "Completion") -> Iterator[str]:
    """Yield remarks about the prefix and the probabilities."""
    if completion.unknown:
        yield f"not in the vocabulary, hence <unk>: {' '.join(completion.unknown)}"
    if completion.dropped:
        yield f"this run drops punctuation; left out: {' '.join(completion.dropped)}"
    entropy = _bits(completion.entropy)
    if not completion.tokens:
        yield f"at the beginning of a sentence: next-word entropy {entropy} bits"
        return
    so_far = _bits(-completion.log_probability)
    yield f"after {' '.join(completion.tokens)!r}: {so_far} bits so far, next-word entropy {entropy} bits"


def _bits(nats: float) -> str:
    """Return nats, which are 0 or more, as bits with two digits; rounding errors below 0 do not show as -0.00."""
    return f"{max(0.0, nats / math.log(2)):.2f}"


def as_json(completion: "Completion") -> dict[str, object]:
    """Return the completion as plain values with their units, for JSON."""
    values = asdict(completion)
    values["words"] = [{"word": word, "probability": probability} for word, probability in completion.words]
    values["log_probability_nats"] = values.pop("log_probability")
    values["entropy_nats"] = values.pop("entropy")
    return values
