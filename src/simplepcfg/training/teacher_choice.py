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

from simplepcfg.data.tokens import read_words
from simplepcfg.files import write_json
from simplepcfg.ops.mbr import best_tree_mask
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import training_text
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training.teachers import Teacher, padded_tables

MOST_SENTENCES = 300  # of the validation text, on which trees are compared
SHORTEST, LONGEST = 3, 40  # words: shorter sentences have one tree, longer ones take long
# Of F1, by which the trees of a teacher that has failed agree more with trees that branch to one side throughout, as a
# branching bias makes them at first, than with those of the reference. Rank-PCFGs agreed with
# right-branching trees by 0.92 and 0.95 in Chinese and 0.54 in English, with SN-PCFGs by 0.54 to 0.63 and 0.60.
MARGIN = 0.15
# The least agreement of a teacher's trees with those of the reference. In Spanish two Rank-PCFGs with 0.52 and
# 0.24 cost the student two points; in English all that taught well had 0.58 or more, and a failed seed 0.32.
LEAST_AGREEMENT = 0.55
# Trees that branch to one side to this extent are no reference. Failed grammars had 0.91 to 0.98 in Spanish and
# Chinese, the others 0.57 or less.
ONE_SIDED = 0.8
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

    Of these, a member is left out that has failed: if its trees agree with those of the reference by less than
    `LEAST_AGREEMENT`, or agree by `MARGIN` more with trees that branch to one side throughout. The reference is the
    likeliest configuration with the vocabulary of the first one, or of any if those branch to one side themselves.

    All is written to `teachers.json` in `folder`, where agreement is not computed again for the same members.
    """
    names = [name for name, runs in members.items() for _ in runs]
    runs = [run for each in members.values() for run in each]
    if len(runs) == 1:
        return Choice(tuple(runs), (), 1.0)
    likelihoods = [float(read_tensor_file(RunFolder(run).model).record["log_likelihood"]) for run in runs]
    agreement, branching = _agreement(runs, config, folder / RECORD, device)
    places = _likeliest(names, likelihoods, keep)
    vocabularies = [RunFolder(run).vocabulary.read_bytes() for run in runs]
    comparable = [vocabulary == vocabularies[0] for vocabulary in vocabularies]
    reference = names[_reference(likelihoods, branching, comparable, places)]
    places = _agreeing(reference, names, agreement, branching, places)
    left_out = tuple(name for name in members if name not in {names[place] for place in places})
    pairs = [float(agreement[i, j]) for i, j in combinations(places, 2)]
    choice = Choice(tuple(runs[place] for place in places), left_out, fmean(pairs) if pairs else 1.0)
    write_json(
        folder / RECORD,
        {
            "members": _relative(runs, folder),
            "log_likelihood": likelihoods,
            "agreement": [[round(value, 4) for value in row] for row in agreement.tolist()],
            "branching": [round(value, 4) for value in branching.tolist()],
            "teachers": _relative(choice.teachers, folder),
            "left_out": list(left_out),
        },
    )
    for name in left_out:
        note(f"{name} is left out: its trees are unlike those of {reference}, or branch to one side")
    return choice


def _relative(runs: Sequence[Path], folder: Path) -> list[str]:
    return [str(run.relative_to(folder)) for run in runs]


def _agreement(runs: Sequence[Path], config: RunConfig, record: Path, device: str) -> tuple[Tensor, Tensor]:
    """Return what `tree_agreement` does, from the record if that is of the same runs."""
    try:
        content = json.loads(record.read_text("utf-8"))
        if content["members"] == _relative(runs, record.parent):
            return torch.tensor(content["agreement"]), torch.tensor(content["branching"])
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


def _reference(
    likelihoods: Sequence[float], branching: Tensor, comparable: Sequence[bool], places: Sequence[int]
) -> int:
    """Return the place of the likeliest member whose trees do not branch to one side.

    It is one of those whose likelihoods are comparable, if there is any.
    """
    two_sided = [place for place in places if branching[place] < ONE_SIDED] or places
    candidates = [place for place in two_sided if comparable[place]] or two_sided
    return max(candidates, key=lambda place: likelihoods[place])


def tree_agreement(
    runs: Sequence[Path], sentences: Sequence[Sequence[str]], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return F1 (0 to 1) between the trees of any two runs [R, R], and between those of each run and the more similar
    of the trees that branch to the right throughout, and to the left [R].

    Trees have the largest sum of span marginals; the span of the whole sentence does not count.
    """
    if not sentences:
        return torch.ones(len(runs), len(runs)), torch.zeros(len(runs))
    tables = (Teacher(load_run(str(run), str(device))).span_marginals(sentences) for run in runs)
    trees = [best_tree_mask(*padded_tables(each)) for each in tables]
    total = sum(len(tokens) - 2 for tokens in sentences)
    right, left = torch.zeros_like(trees[0]), torch.zeros_like(trees[0])
    for place, tokens in enumerate(sentences):
        right[place, : len(tokens) - 1, len(tokens)] = True
        left[place, 0, 2 : len(tokens) + 1] = True

    def f1(one: Tensor, other: Tensor) -> float:
        shared = int((one & other).sum()) - len(sentences)
        return round(shared / total, 4) if total else 1.0  # as it is written down

    pairs = torch.tensor([[f1(one, other) for other in trees] for one in trees])
    return pairs, torch.tensor([max(f1(each, right), f1(each, left)) for each in trees])


def _sentences(config: RunConfig) -> list[list[str]]:
    """Return the first sentences of the validation text, or of the training text where there is none."""
    source = config.data.valid or training_text(config.data)
    assert source is not None
    sentences = read_words(source, config.data.preprocessing, config.data.raw)
    return list(islice((words for words in sentences if SHORTEST <= len(words) <= LONGEST), MOST_SENTENCES))


def _agreeing(
    reference: str, names: Sequence[str], agreement: Tensor, branching: Tensor, places: Sequence[int]
) -> list[int]:
    """Return the places of the reference, and of the other members whose trees are like its own."""
    own = [place for place in places if names[place] == reference]
    likeness = agreement[:, own].mean(1)
    likely = (likeness >= LEAST_AGREEMENT) & (branching < likeness + MARGIN)
    return [place for place in places if place in own or bool(likely[place])]
