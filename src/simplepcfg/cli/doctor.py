"""`simplepcfg doctor`: what this machine has, whether the kernels are right on it, and what to train on it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simplepcfg.cli.options import Json
from simplepcfg.cli.output import write_json, write_lines
from simplepcfg.cli.requests import arg
from simplepcfg.errors import InputError, ResourceError

if TYPE_CHECKING:
    from simplepcfg.runs.machine_check import Fact

SUMMARY = "Check this machine: versions, devices, kernels, memory."


def command(
    folder: Path = arg("DIR", "Folder on the disk whose free space is printed.  [default: .]", Path()),
    json: Json = None,
) -> None:
    """Check versions, devices, threads, memory and disk, and compare the kernels with the naive form on each device.

    A line that needs attention begins with an exclamation mark; then the exit code is 4.

    \b
    Example:
      simplepcfg doctor
      simplepcfg doctor --json machine.json
    """
    from simplepcfg.runs.machine_check import examine
    from simplepcfg.training.recommendation import fitting_configuration

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that exists")
    facts: list[Fact] = []
    for fact in examine(folder):
        facts.append(fact)
        if json != "-":
            write_lines([line(fact)])
    advice = fitting_configuration(40_000)
    if json != "-":
        write_lines([f"  for 40,000 sentences of text: {advice}"])
    write_json(json, {"facts": [asdict(fact) for fact in facts], "recommended": advice.config})
    problems = [fact for fact in facts if fact.problem is not None]
    if problems:
        raise ResourceError(f"{len(problems)} of {len(facts)} need attention, first {problems[0].name}")


def line(fact: "Fact") -> str:
    """Return a fact as a line, which begins with an exclamation mark if something is wrong."""
    mark, fix = ("!", f"; {fact.problem}") if fact.problem is not None else (" ", "")
    return f"{mark} {fact.name}: {fact.value}{fix}"
