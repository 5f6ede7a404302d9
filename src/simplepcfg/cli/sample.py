"""`simplepcfg sample`: sentences that a grammar makes up."""

from typing import TYPE_CHECKING

from simplepcfg.cli.options import Device, Json, Quiet, refuse_baseline
from simplepcfg.cli.output import note, write_json, write_lines
from simplepcfg.cli.requests import arg, flag, opt
from simplepcfg.errors import counted
from simplepcfg.progress import stage

if TYPE_CHECKING:
    from simplepcfg.inference.derivations import SampledText

SUMMARY = "Print random sentences of a grammar."


def command(
    run: str = arg("RUN", "Folder of a trained run, or english."),
    count: int = opt("--count", "COUNT", "How many sentences.", 10, min=1),
    max_length: int = opt("--max-length", "WORDS", "No sentence has more words than this.", 40, min=1),
    temperature: float = flag("--temperature", "Below 1 likelier choices come more often, above 1 less often.", 1.0),
    seed: int = flag("--seed", "The same seed and count give the same sentences.", 0),
    trees: bool = flag("--trees", "Bracketed trees with the grammar's symbols."),
    json: Json = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Print random sentences, one a line, drawn from the grammar given that they are not too long.

    None is cut off: longer ones are left out before anything is drawn, and a remark says how probable they were. Words
    are as the grammar knows them; <unk>, or a class such as <unk:-ing>, stands for a rare word. Symbols have numbers:
    nonterminal 12 is NT-12, preterminal 5 T-5. Lines are printed as they are drawn, some thousand at a time; --json
    holds all of them until the end.

    A run whose sentences end in <eos> counts it as a word. What it draws is read up to the first <eos>, which is not
    shown; the log-probability in --json is that of all that was drawn.

    \b
    Example:
      simplepcfg sample runs/demo --count 5
      simplepcfg sample runs/demo --temperature 0.7 --seed 1 --trees
    """
    from simplepcfg.inference.run import load

    refuse_baseline(run)
    drawn = load(run, device).sample_blocks(count, max_length=max_length, temperature=temperature, seed=seed)
    held = []
    with stage(f"drawing {counted(count, 'sentence')}", count) as advance:
        for number, block in enumerate(drawn):
            if number == 0:
                share = f"{100 * block.kept:.4g} % of the probability"
                note(f"sentences of at most {max_length} words have {share}", quiet)
            if json != "-":
                write_lines(item.tree.to_brackets() if trees else " ".join(item.tree.words) for item in block.trees)
            if json is not None:
                held.append(block)
            advance(len(block.trees))
    if json is not None:
        write_json(json, as_json(held))


def as_json(blocks: "list[SampledText]") -> dict[str, object]:
    """Return the sentences as plain values with their units, for JSON."""
    return {
        "probability_of_length": blocks[0].kept,
        "sentences": [
            {
                "words": item.tree.words,
                "tree": item.tree.to_brackets(),
                "log_probability_nats": item.log_probability,
            }
            for block in blocks
            for item in block.trees
        ],
    }
