"""Choice of the runs that teach, without gold trees: by likelihood and agreement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from simplepcfg.data.tokens import read_tokens
from simplepcfg.files import write_json
from simplepcfg.ops.mbr import best_tree_mask
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import training_text
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training.teachers import padded_tables, span_marginals

MOST_SENTENCES = 300  # of the validation text, on which trees are compared
SHORTEST, LONGEST = 3, 40  # words: shorter sentences have one tree, longer ones take long
# Of F1, by which teachers of one configuration agree more than those of two that do not teach together. Pairs of SN-
# and of Rank-PCFGs had 0.145 in English, where all four were better than either pair, and 0.196 in Chinese, where two
# that branch to the right spoiled the others.
MARGIN = 0.17
# The least agreement of a teacher with those of the likeliest configuration. In Spanish two Rank-PCFGs with 0.52 and
# 0.24 cost the student two points; in English all that taught well had 0.58 or more, and a failed seed 0.32.
LEAST_AGREEMENT = 0.55
RECORD = "teachers.json"


@dataclass(frozen=True, slots=True)
class Choice:
    """The runs that teach, the configurations that do not, and how far the teachers agree.

    `agreement` is the mean F1 (0 to 1) of the trees of two teachers, over all pairs.
    """

    teachers: tuple[Path, ...]
    left_out: tuple[str, ...]
    agreement: float


def choose_teachers(
    members: Mapping[str, Sequence[Path]],
    keep: int,
    config: RunConfig,
    folder: Path,
    *,
    device: str = "auto",
    note: Callable[[str], None] = lambda text: None,
) -> Choice:
    """Choose the finished members of each configuration that teach, without gold trees, and write down why.

    Of each configuration the `keep` members with the largest validation likelihood are taken: seeds of one
    configuration can end far apart, and bad trees would be learned.

    Then a configuration is left out if its members and those of the likeliest one find different trees: those of
    either agree with each other by `MARGIN` more than with those of the other. Where such grammars teach together, a
    student learns a mixture that is worse than the better of them; members that differ from each other as much as from
    other configurations make independent mistakes, which cancel out. A single member is left out if it agrees with
    those of the likeliest configuration by less than `LEAST_AGREEMENT`: it has failed. Likelihoods are compared between
    configurations that have the vocabulary of the first one.

    All is written to `teachers.json` in `folder`, where agreement is not computed again for the same members.
    """
    names = [name for name, runs in members.items() for _ in runs]
    runs = [run for each in members.values() for run in each]
    if len(runs) == 1:
        return Choice(tuple(runs), (), 1.0)
    likelihoods = [float(read_tensor_file(RunFolder(run).model).record["log_likelihood"]) for run in runs]
    agreement = _agreement(runs, config, folder / RECORD, device)
    places = _likeliest(names, likelihoods, keep)
    vocabularies = [RunFolder(run).vocabulary.read_bytes() for run in runs]
    comparable = [place for place in places if vocabularies[place] == vocabularies[0]]
    best = names[max(comparable or places, key=lambda place: likelihoods[place])]
    disagreeing = [name for name in members if name != best and _disagree(name, best, names, agreement, places)]
    places = [place for place in _agreeing(best, names, agreement, places) if names[place] not in disagreeing]
    left_out = tuple(name for name in members if name not in {names[place] for place in places})
    pairs = [float(agreement[i, j]) for i, j in combinations(places, 2)]
    choice = Choice(tuple(runs[place] for place in places), left_out, fmean(pairs) if pairs else 1.0)
    write_json(
        folder / RECORD,
        {
            "members": _relative(runs, folder),
            "log_likelihood": likelihoods,
            "agreement": [[round(value, 4) for value in row] for row in agreement.tolist()],
            "teachers": _relative(choice.teachers, folder),
            "left_out": list(left_out),
        },
    )
    for name in left_out:
        note(f"{name} is left out: its trees differ too much from those of {best}, the likeliest")
    return choice


def _relative(runs: Sequence[Path], folder: Path) -> list[str]:
    return [str(run.relative_to(folder)) for run in runs]


def _agreement(runs: Sequence[Path], config: RunConfig, record: Path, device: str) -> Tensor:
    """Return F1 between the trees of any two runs [R, R], from the record if that is of the same runs."""
    try:
        content = json.loads(record.read_text("utf-8"))
        if content["members"] == _relative(runs, record.parent):
            return torch.tensor(content["agreement"])
    except (OSError, ValueError, KeyError, TypeError):  # There is none yet, or it is damaged.
        pass
    return tree_agreement(runs, _sentences(config), resolve_device(device))


def _likeliest(names: Sequence[str], likelihoods: Sequence[float], keep: int) -> list[int]:
    """Return the places of the members of each configuration that are kept, in order."""
    places = []
    for name in dict.fromkeys(names):
        own = [place for place in range(len(names)) if names[place] == name]
        places += sorted(sorted(own, key=lambda place: likelihoods[place], reverse=True)[:keep])
    return places


def tree_agreement(runs: Sequence[Path], sentences: Sequence[Sequence[str]], device: torch.device) -> Tensor:
    """Return F1 (0 to 1) between the trees of any two runs, [R, R].

    Trees have the largest sum of span marginals; the span of the whole sentence does not count.
    """
    if not sentences:
        return torch.ones(len(runs), len(runs))
    tables = (span_marginals(load_run(str(run), str(device)), sentences) for run in runs)
    trees = [best_tree_mask(*padded_tables(each)) for each in tables]
    total = sum(len(tokens) - 2 for tokens in sentences)

    def f1(one: Tensor, other: Tensor) -> float:
        shared = int((one & other).sum()) - len(sentences)
        return round(shared / total, 4) if total else 1.0  # as it is written down

    return torch.tensor([[f1(one, other) for other in trees] for one in trees])


def _sentences(config: RunConfig) -> list[list[str]]:
    """Return the first sentences of the validation text, or of the training text where there is none."""
    source = config.data.valid or training_text(config.data)
    assert source is not None
    sentences = read_tokens(source, config.data.preprocessing, raw=config.data.raw)
    return list(islice((tokens for tokens in sentences if SHORTEST <= len(tokens) <= LONGEST), MOST_SENTENCES))


def _agreeing(best: str, names: Sequence[str], agreement: Tensor, places: Sequence[int]) -> list[int]:
    """Return the places of `best`, and of the other members that agree with it as far as `LEAST_AGREEMENT`."""
    own = [place for place in places if names[place] == best]
    return [p for p in places if p in own or float(agreement[p, own].mean()) >= LEAST_AGREEMENT]


def _disagree(one: str, other: str, names: Sequence[str], agreement: Tensor, places: Sequence[int]) -> bool:
    """Return whether the kept members of two configurations agree among themselves but not with each other."""

    def mean(first: str, second: str) -> float:
        pairs = [(i, j) for i, j in combinations(places, 2) if {names[i], names[j]} == {first, second}]
        return fmean(float(agreement[i, j]) for i, j in pairs) if pairs else 0.0  # A single member has no pair.

    return mean(one, other) < min(mean(one, one), mean(other, other)) - MARGIN
