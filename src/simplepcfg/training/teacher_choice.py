"""Choice of the runs that teach, without gold trees: by validation likelihood, and by how their trees agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from simplepcfg.data.tokens import read_tokens
from simplepcfg.files import write_json
from simplepcfg.ops.mbr import best_tree_mask
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training.teachers import mean_marginals, span_marginals

MOST_SENTENCES = 300  # of the validation text, on which trees are compared
SHORTEST, LONGEST = 3, 40  # words: shorter sentences have one tree, longer ones take long
MARGIN = 0.1
RECORD = "teachers.json"


@dataclass(frozen=True, slots=True)
class Choice:
    """The runs that teach, the configurations that do not, and how far the teachers agree.

    `agreement` is the mean F1 (0 to 1) of each teacher's trees against those of all of them together.
    """

    teachers: tuple[Path, ...]
    left_out: tuple[str, ...]
    agreement: float


def best_members(runs: Sequence[Path], keep: int) -> list[Path]:
    """Return the finished ones of these runs with the largest validation likelihood, in their order.

    All have the same validation text and vocabulary. Seeds of one configuration can end far apart, and those with a low
    likelihood have worse trees, which a student would learn.
    """
    finished = [run for run in runs if RunFolder(run).model.exists()]
    likelihoods = {run: log_likelihood(run) for run in finished}
    best = sorted(finished, key=lambda run: likelihoods[run], reverse=True)[:keep]
    return [run for run in finished if run in best]


def log_likelihood(run: Path) -> float:
    """Return the validation log-likelihood of a finished run, in nats."""
    return float(read_tensor_file(RunFolder(run).model)[1]["log_likelihood"])


def choose_teachers(
    members: Mapping[str, Sequence[Path]], config: RunConfig, folder: Path, device: str, note: Callable[[str], None]
) -> Choice:
    """Choose among the best members of each configuration those that teach, and write down why.

    A configuration is left out if its trees differ from those of the likeliest one as trees of two minds do: the
    members of either agree with each other by `MARGIN` more than with those of the other. Where such grammars teach
    together, a student learns a mixture that is worse than the better of them; members that differ from each other as
    much as from other configurations make independent mistakes, which cancel out. What was computed before for the
    same members is read from the file `teachers.json` in `folder`.
    """
    names = [name for name, runs in members.items() for _ in runs]
    runs = [run for each in members.values() for run in each]
    if len(runs) == 1:
        return Choice(tuple(runs), (), 1.0)
    record = folder / RECORD
    listed = [str(run.relative_to(folder)) for run in runs]
    if record.is_file() and (content := json.loads(record.read_text("utf-8")))["members"] == listed:
        agreement = torch.tensor(content["agreement"])
        together = content["with_all"]
    else:
        agreement, together = tree_agreement(runs, _sentences(config), resolve_device(device))
    likelihoods = {name: max(map(log_likelihood, each)) for name, each in members.items()}
    left_out = _of_another_mind(names, agreement, likelihoods)
    teachers = tuple(run for name, run in zip(names, runs, strict=True) if name not in left_out)
    write_json(
        record,
        {"members": listed, "agreement": agreement.tolist(), "with_all": together, "left_out": list(left_out)},
    )
    for name in left_out:
        note(f"{name} is left out: its grammars agree with each other, but not with the likeliest ones")
    return Choice(teachers, left_out, fmean(together))


def tree_agreement(
    runs: Sequence[Path], sentences: Sequence[Sequence[str]], device: torch.device
) -> tuple[Tensor, list[float]]:
    """Return F1 (0 to 1) between the trees of any two runs [R, R], and of each run against all of them together.

    Trees have the largest sum of span marginals, of one run or of the mean; the span of the whole sentence does not
    count.
    """
    each = [span_marginals(load_run(str(run), str(device)), sentences) for run in runs]
    trees = [_trees(tables) for tables in [*each, mean_marginals(each)]]
    total = sum(len(tokens) - 2 for tokens in sentences)

    def f1(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        shared = sum(int((a & b).sum()) - 1 for a, b in zip(one, other, strict=True))
        return shared / total if total else 1.0

    agreement = torch.tensor([[f1(one, other) for other in trees[:-1]] for one in trees[:-1]])
    return agreement, [f1(one, trees[-1]) for one in trees[:-1]]


def _trees(tables: Sequence[Tensor]) -> list[Tensor]:
    return [best_tree_mask(table[None])[0] for table in tables]


def _sentences(config: RunConfig) -> list[list[str]]:
    """Return the first sentences of the validation text, or of the training text where there is none."""
    source = config.data.valid or config.data.train
    assert source is not None
    usable = (
        tokens
        for tokens in read_tokens(source, config.data.preprocessing, raw=config.data.raw)
        if SHORTEST <= len(tokens) <= LONGEST
    )
    return [tokens for tokens, _ in zip(usable, range(MOST_SENTENCES), strict=False)]


def _of_another_mind(names: Sequence[str], agreement: Tensor, likelihoods: Mapping[str, float]) -> tuple[str, ...]:
    """Return the configurations whose members agree with each other, but not with those of the likeliest one."""
    best = max(likelihoods, key=lambda name: likelihoods[name])

    def mean(one: str, other: str) -> float:
        pairs = combinations(range(len(names)), 2)
        values = [float(agreement[i, j]) for i, j in pairs if {names[i], names[j]} == {one, other}]
        return fmean(values) if values else 0.0  # A single member agrees with no other.

    return tuple(
        name
        for name in likelihoods
        if name != best and mean(name, best) < min(mean(name, name), mean(best, best)) - MARGIN
    )
