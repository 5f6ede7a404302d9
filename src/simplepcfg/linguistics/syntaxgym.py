"""Test suites in SyntaxGym's format: do the surprisals of regions differ between conditions as predicted?"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from simplepcfg.data.readers import open_text
from simplepcfg.errors import InputError
from simplepcfg.linguistics.accuracy import Accuracy, Judgement, accuracy_of_set, with_means
from simplepcfg.linguistics.formulas import Formula, parse_formula
from simplepcfg.linguistics.regions import RegionSurprisal, region_surprisals
from simplepcfg.linguistics.word_model import WordModel

ALL_REGIONS = "*"
Condition = dict[str, str]  # the text of each region, by its number


@dataclass(frozen=True, slots=True)
class Suite:
    """Items in several conditions, and formulas that should hold of each item."""

    name: str
    predictions: tuple[Formula, ...]
    items: tuple[Mapping[str, Condition], ...]  # the conditions of each item by their names


def read_suite(path: str | PathLike[str]) -> Suite:
    """Read a suite from its JSON file; what is missing or does not fit together is an InputError that names it."""
    name = fspath(path)
    text = "\n".join(open_text(path))
    try:
        content: Any = json.loads(text)
        meta, items, predictions = content["meta"], content["items"], content["predictions"]
        suite = Suite(
            str(meta["name"]),
            tuple(parse_formula(str(prediction["formula"])) for prediction in predictions),
            tuple(_conditions(item) for item in items),
        )
        metric = str(meta.get("metric", "sum"))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (json.JSONDecodeError, RecursionError):
        raise InputError(f"{name}: is not JSON; give a suite in SyntaxGym's format") from None
    except KeyError as error:
        raise InputError(
            f"{name}: has no {error.args[0]!r}, which SyntaxGym's suites have; see docs/linguists.md"
        ) from None
    except (TypeError, AttributeError) as error:
        raise InputError(f"{name}: is no suite in SyntaxGym's format ({error!r}); see docs/linguists.md") from None
    if metric != "sum":
        raise InputError(f"{name}: meta.metric is {metric!r}; only sums over a region's words are known: sum")
    if not suite.items or not suite.predictions:
        raise InputError(f"{name}: has {len(suite.items)} items and {len(suite.predictions)} predictions; give both")
    _check_regions(suite, name)
    return suite


def evaluate_suite(model: WordModel, suite: Suite) -> list[Accuracy]:
    """Compute the share of items of which a prediction holds, an entry for each prediction.

    A prediction that asks for equal surprisals is not counted in means: numbers are never equal.
    """
    texts = [list(regions.values()) for item in suite.items for regions in item.values()]
    scored = iter(region_surprisals(model, texts))
    by_item = [
        {condition: dict(zip(regions, next(scored), strict=True)) for condition, regions in item.items()}
        for item in suite.items
    ]
    accuracies = []
    for number, prediction in enumerate(suite.predictions, start=1):
        judgements = [_judge(prediction, item) for item in by_item]
        name = suite.name if len(suite.predictions) == 1 else f"{suite.name} ({number})"
        accuracies.append(accuracy_of_set(model.name, name, judgements, suite.name, not prediction.asks_for_equality))
    return accuracies


def evaluate_suites(model: WordModel, suites: Sequence[Suite]) -> list[Accuracy]:
    """Compute the accuracies of several suites, then their mean, in which every suite counts once."""
    accuracies = [entry for suite in suites for entry in evaluate_suite(model, suite)]
    return with_means(accuracies, over_groups=True)


def _judge(prediction: Formula, item: Mapping[str, Mapping[str, RegionSurprisal]]) -> Judgement:
    def value(region: str, condition: str) -> float:
        regions = item[condition].values() if region == ALL_REGIONS else [item[condition][region]]
        # A region without a token that the model looks at, such as an empty one, adds nothing.
        return math.fsum(each.surprisal for each in regions if each.surprisal is not None)

    truth = prediction(value)
    unknown = any(region.has_unknown for condition in item.values() for region in condition.values())
    return Judgement(truth.holds, truth.tie, unknown)


def _conditions(item: Any) -> dict[str, Condition]:
    return {
        str(condition["condition_name"]): {
            str(region["region_number"]): str(region["content"]) for region in condition["regions"]
        }
        for condition in item["conditions"]
    }


def _check_regions(suite: Suite, name: str) -> None:
    """Check that every region that a formula names is there in every item."""
    for prediction in suite.predictions:
        for region, condition in sorted(prediction.regions):
            for number, item in enumerate(suite.items, start=1):
                if condition not in item:
                    raise InputError(
                        f"{name}: a formula names condition {condition!r}; item {number} has {', '.join(item)}"
                    )
                if region != ALL_REGIONS and region not in item[condition]:
                    known = ", ".join(item[condition])
                    raise InputError(f"{name}: a formula names region {region}; item {number} has {known}")
