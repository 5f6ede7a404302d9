"""Random grammars of every family, from flat to nearly deterministic, with zeros, and sentences to ask them about."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.tree_questions import Sentence, sentences_of
from simplepcfg.grammars import DenseEmissions, DenseGrammar, Grammar, HiddenMarkovModel, RankGrammar, SimpleGrammar
from simplepcfg.ops.inside import BACKENDS

INTERPRETED = ("triton",)  # by Triton's interpreter, a hundred times slower
WORDS = 6


@dataclass(frozen=True)
class Drawn:
    """A random grammar of trees, written out as an ordinary PCFG too, and sentences to ask it about."""

    make: Callable[[str, torch.dtype], Grammar]  # by backend and type
    backends: tuple[str, ...]
    root: Tensor
    rules: Tensor
    emit: Tensor
    words: Tensor
    lengths: Tensor
    bonus: Tensor | None
    whole: bool  # rows sum to 1

    def sentences(self) -> list[Sentence]:
        return sentences_of(self.root, self.rules, self.emit, self.words, self.lengths, self.bonus)


class Draw:
    """Sizes, sentences and rows of probabilities from one generator."""

    def __init__(self, rng: random.Random) -> None:
        self.generator = torch.Generator().manual_seed(rng.getrandbits(60))
        self.states, self.tags, batch, n = rng.randint(1, 5), rng.randint(1, 6), rng.randint(1, 3), rng.randint(2, 6)
        self.scale, self.zeros = rng.choice([0.3, 2.0, 8.0, 25.0]), rng.choice([0.0, 0.0, 0.4])
        self.lengths = torch.tensor([n, *(rng.randint(1, n) for _ in range(batch - 1))])
        self.words = torch.randint(0, WORDS, (batch, n), generator=self.generator)

    def rows(self, *size: int) -> Tensor:
        """From flat to nearly deterministic ones, some with zeros, whose rows do not sum to 1."""
        logits = torch.randn(*size, generator=self.generator, dtype=torch.float64) * self.scale
        found = logits.softmax(-1)
        return found * (torch.rand(size, generator=self.generator) >= self.zeros) if self.zeros else found

    def bonus(self) -> Tensor:
        """Log-weights of spans, some of which are forbidden; a right-branching tree stays, or questions are refused."""
        batch, n = self.words.shape
        found = torch.randn(batch, n + 1, n + 1, generator=self.generator, dtype=torch.float64)
        found[torch.rand(found.shape, generator=self.generator) < 0.1] = -math.inf
        for b, length in enumerate(self.lengths.tolist()):
            found[b, : length - 1, length] = 0.5
        return found


def draw(family: str, rng: random.Random) -> Drawn:
    """A grammar of a family of trees."""
    found = Draw(rng)
    states, symbols = found.states, found.states + found.tags
    emit, root = found.rows(found.tags, WORDS), found.rows(states)
    backends = ("torch",) if family == "dense" else tuple(name for name in BACKENDS if name not in INTERPRETED)
    if family == "simple":
        parts: tuple[Tensor, ...] = (found.rows(states, symbols), found.rows(states, symbols))
        rules = parts[0][:, :, None] * parts[1][:, None]
        kind: Callable[..., Grammar] = SimpleGrammar
    elif family == "dense":
        rules = found.rows(states, symbols * symbols).view(states, symbols, symbols)
        parts, kind = (rules,), DenseGrammar
    else:
        ranks = rng.randint(1, 4)
        parts = (found.rows(states, ranks), found.rows(ranks, symbols), found.rows(ranks, symbols))
        rules = torch.einsum("ar,rb,rc->abc", *parts)
        kind = RankGrammar

    def make(backend: str, dtype: torch.dtype) -> Grammar:
        emissions = DenseEmissions(emit.log().to(dtype))
        chosen = {} if family == "dense" else {"backend": backend}
        return kind(root.to(dtype), *(part.to(dtype) for part in parts), emissions, **chosen)

    bonus = found.bonus() if rng.random() < 0.5 else None
    return Drawn(make, backends, root, rules, emit, found.words, found.lengths, bonus, whole=not found.zeros)


def draw_chain(rng: random.Random) -> tuple[HiddenMarkovModel, Draw]:
    """A hidden Markov model and sentences to ask it about."""
    found = Draw(rng)
    emit = found.rows(found.states, WORDS)
    model = HiddenMarkovModel(
        found.rows(found.states), found.rows(found.states, found.states), DenseEmissions(emit.log())
    )
    return model, found
