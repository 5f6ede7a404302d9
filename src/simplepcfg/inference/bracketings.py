"""Distinct trees without symbols: the probability of a bracketing is the sum over all derivations that have it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simplepcfg.data.constraints import Constraints
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import require_whole
from simplepcfg.inference.derivations import sampled_trees
from simplepcfg.inference.marginals import make_bonus
from simplepcfg.inference.scoring import token_scores
from simplepcfg.inference.sentences import Sentence
from simplepcfg.inference.trained_model import TrainedModel


@dataclass(frozen=True, slots=True)
class Bracketing:
    """A tree without symbols, its share of the sentence's probability, and its share of the random trees."""

    tree: SpanTree
    probability: float
    sampled: float


def most_probable_bracketings(
    run: TrainedModel,
    sentence: Sentence,
    k: int,
    constraints: Constraints | Mapping[str, object] | None,
    samples: int,
    seed: int,
    between: Callable[[], object],
) -> list[Bracketing]:
    """Return the bracketings that are most frequent among random trees, with their exact probabilities.

    `between` is called before each of the probabilities, which take as long as scoring the sentence.
    """
    require_whole("k", k, 1)
    prepared = run.prepare([sentence])
    (item,) = prepared
    own = Constraints() if constraints is None else constraints
    own = own if isinstance(own, Constraints) else Constraints.from_mapping(own)
    drawn = sampled_trees(run, prepared, make_bonus([own], prepared), samples, seed)[0]
    if drawn[0].log_probability == -math.inf:
        return []
    counts = Counter(tuple((i, j) for i, j, _ in scored.tree.spans) for scored in drawn)

    def log_probability(spans: tuple[tuple[int, int], ...]) -> float:
        between()
        asked = Constraints(own.require + spans, own.forbid, own.bonus)
        return token_scores(run, [item.tokens], make_bonus([asked], prepared))[0].log_probability

    whole = log_probability(())
    ranked = [
        Bracketing(
            SpanTree.from_spans(item.words, spans), min(math.exp(log_probability(spans) - whole), 1.0), count / samples
        )
        for spans, count in counts.most_common(k)
    ]
    return sorted(ranked, key=lambda item: -item.probability)
