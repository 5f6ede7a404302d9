"""Weights of the runs of an ensemble, by validation likelihood or by agreement with the others.

Neither looks at gold trees.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from simplepcfg.errors import InputError
from simplepcfg.evaluation.treebank import Spans
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.runs.run_folder import RunFolder

WEIGHTS = ("equal", "likelihood", "agreement")


def likelihood_weights(runs: Sequence[TrainedModel]) -> list[float]:
    """Return weights that add up to 1, proportional to exp of the mean log-probability of a validation sentence.

    All runs must have been validated on the same sentences with the same vocabulary. Of a compound model it is the
    lower bound that training reports.
    """
    texts = [_validation_text(run) for run in runs]
    for run, text in zip(runs, texts, strict=True):
        if text.sha256 != texts[0].sha256 or run.vocabulary.fingerprint != runs[0].vocabulary.fingerprint:
            raise InputError(
                f"{runs[0].name} and {run.name} were validated on different sentences or words, so their likelihoods "
                'are not comparable; train them with the same validation text, or weigh by "agreement"'
            )
    means = [run.best["log_likelihood"] / text.sentences for run, text in zip(runs, texts, strict=True)]
    largest = max(means)
    if largest == -math.inf:
        return [1 / len(runs)] * len(runs)
    return normalised([math.exp(mean - largest) for mean in means])


def agreement_weights(trees: Sequence[Sequence[Spans]]) -> list[float]:
    """Return weights that add up to 1, proportional to the mean F1 of each run's trees against those of the others.

    `trees` holds, for each run, the spans of each sentence's tree. F1 is over all sentences together, without the spans
    that every tree has.
    """
    if len(trees) == 1:
        return [1.0]
    inner = [[_inner(spans) for spans in sentences] for sentences in trees]
    means = []
    for number, one in enumerate(inner):
        agreements = [_f1(one, other) for place, other in enumerate(inner) if place != number]
        means.append(sum(agreements) / len(agreements))
    return normalised(means)


def normalised(values: Sequence[float]) -> list[float]:
    """Return the same proportions with the sum 1; equal ones where all are 0."""
    total = math.fsum(values)
    return [value / total for value in values] if total else [1 / len(values)] * len(values)


def _inner(spans: Spans) -> set[tuple[int, int]]:
    """Return the spans without the one over the whole sentence."""
    whole = max((j - i for i, j in spans), default=0)
    return {(i, j) for i, j in spans if j - i < whole}


def _f1(one: Sequence[set[tuple[int, int]]], other: Sequence[set[tuple[int, int]]]) -> float:
    both = sum(len(a & b) for a, b in zip(one, other, strict=True))
    total = sum(map(len, one)) + sum(map(len, other))
    return 2 * both / total if total else 1.0


class _ValidationText(NamedTuple):
    sha256: str
    sentences: int


def _validation_text(run: TrainedModel) -> _ValidationText:
    """Return what run.json says about the validation text."""
    try:
        assert run.directory is not None
        folder = RunFolder(run.directory)
        facts = json.loads(folder.facts.read_text("utf-8")) if folder.is_own(folder.facts) else {}
        text = facts["data"]["valid"]
        if isinstance(text["sha256"], str) and int(text["sentences"]) > 0 and "log_likelihood" in run.best:
            return _ValidationText(text["sha256"], int(text["sentences"]))
    except (AssertionError, OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InputError(
        f"{run.name}: its folder has no run.json that tells the validation text; "
        'weigh by "agreement", or give the folder that training wrote'
    )
