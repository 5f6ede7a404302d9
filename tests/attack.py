"""Attacks on everything that reads or writes files, and on every answer; prints one table of what came of them.

    python tests/attack.py                                        # some minutes on one core
    python tests/attack.py --kills 100 --inputs 100000 --grammars 10000   # a night
    python tests/attack.py --only fuzzing --inputs 20000 --seed 7

Everything is drawn from --seed, and a finding says how to repeat it. Exit code 1 if anything was found.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TRITON_INTERPRET", "1")
sys.path.insert(0, str(Path(__file__).parent / "helpers"))
sys.path.insert(0, str(Path(__file__).parent))

import torch

from attacks import differential, file_systems, fuzzing, kills
from attacks.outcomes import Outcome, table
from fast_interpreter import speed_up
from tiny_runs import make_tiny_run

GROUPS = ("kills", "disks", "fuzzing", "differential")


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--kills",
        type=int,
        default=4,
        help="kill -9 of training, with and without teachers, prepare and reproduce each",
    )
    parser.add_argument(
        "--disks", type=int, default=4, help="full disks, limits, second processes, jumping clocks each"
    )
    parser.add_argument("--inputs", type=int, default=2000, help="inputs of all fuzzing together")
    parser.add_argument("--grammars", type=int, default=20, help="random grammars of each family")
    parser.add_argument("--minutes", type=float, help="end fuzzing, and comparing grammars, after so many minutes each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=GROUPS, action="append", help="leave out the others; repeatable")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    speed_up()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name)
        for group in GROUPS:
            if asked.only and group not in asked.only:
                continue
            began = time.monotonic()
            (folder / group).mkdir()
            found = ATTACKS[group](asked, folder / group)
            outcomes += found
            print(f"{group}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(outcomes))
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _kills(asked: argparse.Namespace, folder: Path) -> list[Outcome]:
    for name in ("train", "teachers", "prepare", "reproduce"):
        (folder / name).mkdir()
    return [
        kills.kill_training(folder / "train", asked.kills, asked.seed),
        kills.kill_taught_training(folder / "teachers", asked.kills, asked.seed),
        kills.kill_others("prepare", folder / "prepare", asked.kills, asked.seed),
        kills.kill_others("reproduce", folder / "reproduce", asked.kills, asked.seed),
    ]


def _disks(asked: argparse.Namespace, folder: Path) -> list[Outcome]:
    setting = file_systems.Setting(folder)
    return [
        file_systems.file_size_limits(setting, asked.disks, asked.seed),
        file_systems.full_disks(setting, asked.disks, asked.seed),
        file_systems.read_only_folders(setting),
        file_systems.two_processes(setting, asked.disks),
        file_systems.jumping_clock(setting, asked.disks, asked.seed),
    ]


def _fuzzing(asked: argparse.Namespace, folder: Path) -> list[Outcome]:
    return fuzzing.fuzz(asked.inputs, folder, make_tiny_run(folder / "run"), asked.seed, _seconds(asked))


def _differential(asked: argparse.Namespace, folder: Path) -> list[Outcome]:
    return differential.differential(asked.grammars, asked.seed, seconds=_seconds(asked))


def _seconds(asked: argparse.Namespace) -> float | None:
    return None if asked.minutes is None else 60 * asked.minutes


ATTACKS: dict[str, Callable[[argparse.Namespace, Path], list[Outcome]]] = {
    "kills": _kills,
    "disks": _disks,
    "fuzzing": _fuzzing,
    "differential": _differential,
}

if __name__ == "__main__":
    sys.exit(main())
