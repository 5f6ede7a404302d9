"""Train a grammar that comes with the package or as a package of its own, from text that may be redistributed.

    python tools/grammar_text.py english DATA --out build/text/english
    python tools/train_grammars.py english build/text/english --out runs/english
    simplepcfg package runs/english/student --name english --folder --card card.md --out src/simplepcfg/pretrained

Where the text has a `members.txt`, an ensemble learns from it and then teaches the grammar.
"""

import argparse
from pathlib import Path

from simplepcfg.runs.config.files import load_config
from simplepcfg.training.distillation import distil
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.start import train as train_run

LONGEST = 40
MEMBERS = {
    "sn-pcfg-1024": ["data.vocabulary_size=15000", 'data.unknown_classes="endings"', "training.epochs=3"],
    "rank-pcfg-biased": ["data.vocabulary_size=15000", 'data.unknown_classes="endings"', "training.epochs=2"],
}
# Weight decay is that of fewer sentences divided by their number: 0.2 for 42,000 sentences and eight epochs. The weight
# of teachers falls until the last step of the English text: one that stays costs surprisals and does not help trees.
STUDENT = [
    "data.vocabulary_size=25000",
    'data.unknown_classes="endings"',
    "model.embedding=256",
    "training.epochs=2",
    "training.teacher_steps=56031",
    "training.weight_decay_per_epoch=0",
    "training.weight_decay=0.05",
]

LANGUAGES = {"english": "en", "french": "fr", "german": "de", "spanish": "es"}


def train(name: str, text: Path, out: Path, settings: list[str], seeds: int, keep: int, jobs: int) -> None:
    """Distil the grammar of a language: members learn from members.txt, the student from train.txt.

    Without members.txt there are no members, and the grammar learns from the text alone.
    """

    def file(stem: str) -> str:
        return str(text / f"{stem}.txt")

    shared = [f"data.max_length={LONGEST}", f'data.valid="{file("valid")}"', f'data.language="{LANGUAGES[name]}"']
    own = [f'name="{name}"', f'data.train="{file("train")}"', *STUDENT, *settings]
    student = load_config("sn-pcfg-1024", [*shared, *own])
    if not (text / "members.txt").exists():
        train_run(student, out / "student", reporter=make_reporter())
        return
    learned = f'data.train="{file("members")}"'
    members = {config: load_config(config, [*shared, *changes, learned]) for config, changes in MEMBERS.items()}
    distil(
        members,
        out,
        seeds,
        student=student,
        keep=keep,
        jobs=jobs,
        make_reporter=lambda folder, config: make_reporter(),
        note=print,
    )


def main() -> None:
    """Train one grammar."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", choices=LANGUAGES)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--keep", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    train(given.name, given.text, given.out, given.settings, given.seeds, given.keep, given.jobs)


if __name__ == "__main__":
    main()
