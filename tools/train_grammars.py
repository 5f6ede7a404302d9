"""Train a grammar that comes with the package or as a package of its own, from text that may be redistributed.

    python tools/grammar_text.py english DATA --out build/text/english
    python tools/train_grammars.py english build/text/english --out runs/english
    simplepcfg package runs/english/student --name english --folder --out src/simplepcfg/pretrained

Where the text has a `members.txt`, an ensemble learns from it and then teaches the grammar.
"""

import argparse
from pathlib import Path

from simplepcfg.data.tokens import read_tokens
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.training.distillation import distil
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.start import train as train_run

LONGEST = 40
CLASSES = 'data.unknown_classes="endings"'
MEMBERS = {  # Two seeds of each learn for so many epochs.
    "sn-pcfg-1024": 3,
    "rank-pcfg-biased": 2,
}
# Weight decay is that of fewer sentences divided by their number: 0.2 for 42,000 sentences and eight epochs.
STUDENT = [
    "data.vocabulary_size=25000",
    CLASSES,
    "model.embedding=256",
    "training.epochs=2",
    "training.weight_decay_per_epoch=0",
    "training.weight_decay=0.05",
]
# Punctuation and the ends of sentences belong to the language of a model that is asked for surprisals.
SURPRISAL = [
    "data.vocabulary_size=25000",
    CLASSES,
    "data.lowercase=true",
    'data.numbers="N"',
    "model.nonterminals=2048",
    "model.preterminals=2048",
    "model.embedding=256",
    "training.batch_size=32",
    "training.epochs=2",
    "training.weight_decay=0",
    "training.weight_decay_per_epoch=1",
]
# How trees are chosen, set by development trees: data.separator_weight and data.branching_bonus.
DECODING = {"english": (1, 0.6), "english-surprisal": (0, 0), "french": (1, 0.4), "german": (1, 0), "spanish": (1, 0.4)}
LANGUAGES = {"english": "en", "english-surprisal": "en", "french": "fr", "german": "de", "spanish": "es"}


def train(name: str, text: Path, out: Path, settings: list[str], jobs: int) -> None:
    """Distil the grammar of a language: members learn from members.txt, the student from train.txt.

    Without members.txt there are no members, and the grammar learns from the text alone. The weight of teachers falls
    to 0 until the last step: one that stays costs surprisals and does not help trees.
    """
    surprisal = name.endswith("-surprisal")

    def config(base: str, stem: str, *changes: str) -> RunConfig:
        files = [f'data.{key}="{text / file}.txt"' for key, file in (("train", stem), ("valid", "valid"))]
        return load_config(base, [f"data.max_length={LONGEST}", f'data.language="{LANGUAGES[name]}"', *files, *changes])

    base, own = ("sn-pcfg-4096", SURPRISAL) if surprisal else ("sn-pcfg-1024", STUDENT)
    separators, bonus = DECODING[name]
    own = [*own, f"data.separator_weight={separators}", f"data.branching_bonus={bonus}", *settings]
    student = config(base, "train", f'name="{name}"', *own)
    if surprisal or not (text / "members.txt").exists():
        train_run(student, out / "student", reporter=make_reporter())
        return
    members = {
        base: config(base, "members", "data.vocabulary_size=15000", CLASSES, f"training.epochs={epochs}")
        for base, epochs in MEMBERS.items()
    }
    distil(
        members,
        out,
        2,
        student=student,
        teacher_steps=steps(student),
        jobs=jobs,
        make_reporter=lambda folder, config: make_reporter(),
        note=print,
    )


def steps(config: RunConfig) -> int:
    """Return the number of training steps."""
    assert config.data.train is not None
    lengths = [len(tokens) for tokens in read_tokens(config.data.train, config.data.preprocessing)]
    usable = sum(2 <= length <= (config.data.max_length or length) for length in lengths)
    return config.training.epochs * usable // config.training.batch_size


def main() -> None:
    """Train one grammar."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", choices=LANGUAGES)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    train(given.name, given.text, given.out, given.settings, given.jobs)


if __name__ == "__main__":
    main()
