"""The stress set of the inside kernels: trained, peaked, dead, zero, long and odd-sized cases, by name, in float64.

Only torch and the package are imported, so that the set can be run where nothing else is installed.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

from random_grammars import Case, random_case, with_dead_states, with_zeros
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.grammars import DenseEmissions
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig


@dataclass(frozen=True)
class Stress:
    """Arguments of the inside algorithm and, where sentences differ, their lengths."""

    case: Case
    lengths: tuple[int, ...] | None = None

    @staticmethod
    def of(
        log_emissions: Tensor, root: Tensor, left: Tensor, right: Tensor, lengths: tuple[int, ...] | None = None
    ) -> "Stress":
        """Every number is made one that float32 holds: what is then measured is the algorithm's error alone."""
        return Stress(Case(log_emissions, root, left, right).to(torch.float32).to(torch.float64), lengths)

    def sentence_lengths(self) -> Tensor:
        """[B], float64, whether or not they differ."""
        emissions = self.case.log_emissions
        batch, n, _ = emissions.shape
        return torch.tensor(self.lengths or (n,) * batch, dtype=torch.float64, device=emissions.device)

    def shortened(self, words: int) -> "Stress":
        """The first sentence's first words: for a backend that is too slow for more."""
        case = self.case
        root, left, right = (
            t[:1] if t.dim() > dims else t for t, dims in ((case.root, 1), (case.left, 2), (case.right, 2))
        )
        return Stress.of(case.log_emissions[:1, :words], root, left, right)


AGES = (0, 20, 100, 300)
HELD_OUT = 24
LONGEST_LEARNED = 6


@dataclass(frozen=True)
class Trained:
    """A grammar out of a training run and sentences that it was not trained on, 0 where they end."""

    root: Tensor
    left: Tensor
    right: Tensor
    log_emit: Tensor  # [P, 1 + words]
    words: Tensor  # [B, n]
    lengths: tuple[int, ...]


@cache
def training_run(nonterminals: int = 24, preterminals: int = 49, embedding: int = 32) -> dict[int, Trained]:
    """One run on the built-in treebank, as the demo does it; the grammar at every age, in steps of 16 sentences."""
    sentences = [tree.words for tree in generate_treebank(600, seed=7) if 2 <= len(tree.words) <= 10]
    ids = {word: index + 1 for index, word in enumerate(sorted({word for words in sentences for word in words}))}
    held_out = sentences[:HELD_OUT]
    # Short sentences to learn from make a step cheap; those that are asked about have all lengths.
    sentences = sorted((words for words in sentences[HELD_OUT:] if len(words) <= LONGEST_LEARNED), key=len)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = SimpleNPCFG(
            SimpleNPCFGConfig(nonterminals=nonterminals, preterminals=preterminals, embedding=embedding), len(ids) + 1
        )
    optimiser = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.75, 0.999), fused=True)
    generator = torch.Generator().manual_seed(2)
    ages = {}
    for step in range(AGES[-1] + 1):
        if step in AGES:
            ages[step] = _snapshot(model, *_padded(held_out, ids))
        start = int(torch.randint(len(sentences) - 16, (1,), generator=generator))
        words, lengths = _padded(sentences[start : start + 16], ids)
        optimiser.zero_grad()
        model.loss(words, lengths).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 3.0)
        optimiser.step()
    return ages


def _padded(sentences: list[tuple[str, ...]], ids: dict[str, int]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(words) for words in sentences])
    rows = [[ids[word] for word in words] + [0] * (int(lengths.amax()) - len(words)) for words in sentences]
    return torch.tensor(rows), lengths


@torch.no_grad()
def _snapshot(model: SimpleNPCFG, words: Tensor, lengths: Tensor) -> Trained:
    # In float64, so that no rule is 0 by rounding alone; zeros have cases of their own.
    grammar = copy.deepcopy(model).double().grammar()
    everything = torch.arange(model.word_embeddings.shape[0] + 1)[None]
    log_emit = grammar.emissions.log_probabilities(everything)[0].T
    return Trained(grammar.root, grammar.left, grammar.right, log_emit, words, tuple(lengths.tolist()))


def trained(age: int, sharpness: float, seed: int) -> Stress:
    """A grammar out of a training run; ``sharpness`` multiplies the logits of all its distributions."""
    found = training_run()[age]
    root, left, right = ((rules.log() * sharpness).softmax(-1) for rules in (found.root, found.left, found.right))
    log_emit = found.log_emit.clone()
    log_emit[:, 1:] = (log_emit[:, 1:] * sharpness).log_softmax(-1)
    chosen = slice(6 * seed % HELD_OUT, 6 * seed % HELD_OUT + 6)
    lengths = found.lengths[chosen]
    log_emissions = DenseEmissions(log_emit).log_probabilities(found.words[chosen, : max(lengths)])
    return Stress.of(log_emissions, root, left, right, lengths)


def peaked(scale: float, seed: int) -> Stress:
    """Normal logits times ``scale``; beyond 20 the states of a span differ by more than float32's range."""
    return Stress.of(*random_case(4, 14, 32, 63, scale=scale, seed=seed).tensors())


def sized(nonterminals: int, preterminals: int, n: int, scale: float, seed: int) -> Stress:
    """Random rules of any size, for odd ones and for length."""
    return Stress.of(*random_case(3, n, nonterminals, preterminals, scale=scale, seed=seed).tensors())


def mixed(lengths: tuple[int, ...], scale: float, batched: bool, seed: int) -> Stress:
    """Sentences of several lengths, with rules of their own where ``batched``."""
    case = random_case(len(lengths), max(lengths), 17, 31, scale=scale, batched=batched, seed=seed)
    return Stress.of(*case.tensors(), lengths)


def dead(scale: float, lead: float, seed: int) -> Stress:
    """The first state is e^(2 lead) likelier inside than all others but generated by none; the last makes nothing."""
    case = with_dead_states(random_case(4, 12, 17, 31, scale=scale, seed=seed))
    left, right = case.left.detach().clone(), case.right.detach().clone()
    for rules in (left, right):
        rules[1:, 17:] *= math.exp(-lead)
    return Stress.of(case.log_emissions, case.root, left, right)


def unreachable(scale: float, seed: int) -> Stress:
    """A third of all symbols is never generated; another third of the states makes only what has no words."""
    case = random_case(4, 12, 18, 31, scale=scale, seed=seed)
    root, left, right = (tensor.detach().clone() for tensor in (case.root, case.left, case.right))
    for rules in (root, left, right):
        rules[..., :6] = 0.0
    for rules in (left, right):
        rules[:, 18:28:3] = 0.0
        rules[6:12, 12:] = 0.0
    return Stress.of(case.log_emissions, root, left, right)


def zeros(scale: float, impossible: bool, seed: int) -> Stress:
    """Half of all rules and emissions are 0; ``impossible`` adds a word that nothing emits to two of the sentences."""
    case = with_zeros(random_case(4, 9, 17, 31, scale=scale, seed=seed), seed)
    emissions = case.log_emissions.detach().clone()
    if impossible:
        emissions[0, 3] = emissions[2, 0] = -math.inf
    return Stress.of(emissions, case.root, case.left, case.right)


def root_apart(distance: float, seed: int) -> Stress:
    """The root takes the one state whose β is e^-distance below the others', and hardly any other."""
    case = random_case(4, 10, 17, 31, scale=4.0, seed=seed)
    left, right = case.left.detach().clone(), case.right.detach().clone()
    left[0] *= math.exp(-distance / 2)
    right[0] *= math.exp(-distance / 2)
    root = torch.full((17,), math.exp(-1.2 * distance), dtype=torch.float64)
    root[0] = 1.0
    return Stress.of(case.log_emissions, root, left, right)


def children_apart(distance: float, scale: float, seed: int) -> Stress:
    """η is e^-distance lower at even states and ζ at odd ones: no state is near the peak of both."""
    case = random_case(4, 14, 17, 31, scale=scale, seed=seed)
    left, right = case.left.detach().clone(), case.right.detach().clone()
    left[::2] *= math.exp(-distance)
    right[1::2] *= math.exp(-distance)
    return Stress.of(case.log_emissions, case.root, left, right)


def hollow(distance: float, seed: int) -> Stress:
    """Words "c a b b": "a b" is likely, but only as a right child, so its η is 0 where all else is far below it.

    S → c S, S → a X at e^-distance, X → a b, X → b b at e^-distance; the one tree is (c (a (b b))).
    """
    rare, factors = math.exp(-distance), torch.Generator().manual_seed(seed)
    root = torch.tensor([1.0, 0.0], dtype=torch.float64)
    left, right = torch.zeros(2, 2, 5, dtype=torch.float64)  # S, X by S, X, a, b, c
    left[0, 4], left[0, 2], left[1, 2], left[1, 3] = 0.5, rare, 1.0, rare
    right[0, 0], right[0, 1], right[1, 3] = 0.5, 0.5, 1.0
    left, right = (rules * (1 - 0.5 * torch.rand(2, 5, generator=factors).double()) for rules in (left, right))
    emissions = torch.full((2, 4, 3), -math.inf, dtype=torch.float64)
    for position, word in enumerate((2, 0, 1, 1)):
        emissions[:, position, word] = 0.0
    return Stress.of(emissions, root, left, right)


def shadowed(seed: int) -> Stress:
    """Words "a a a", made by U alone, whose β is 2^-120 of V's, which is itself far below where η and ζ peak.

    V, W and Y are nobody's children; W has an η and no ζ, Y a ζ and no η.
    """
    factors = torch.Generator().manual_seed(seed)
    root = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    left, right = torch.zeros(2, 4, 5, dtype=torch.float64)  # U, V, W, Y by U, V, W, Y, a
    left[:, 4] = torch.tensor([2.0**-83, 2.0**-23, 1.0, 0.0])
    right[:, 4] = torch.tensor([2.0**-83, 2.0**-23, 0.0, 1.0])
    left[0, 0] = 0.5
    left, right = (rules * (1 - 0.5 * torch.rand(4, 5, generator=factors).double()) for rules in (left, right))
    return Stress.of(torch.zeros(2, 3, 1, dtype=torch.float64), root, left, right)


# By name: draw number → case. Errors are compared over several draws, for one draw's are a matter of luck.
CATALOGUE: dict[str, Callable[[int], Stress]] = {
    **{f"trained {age}": partial(trained, age, 1.0) for age in AGES},
    **{f"trained {age}, sharpened": partial(trained, age, 4.0) for age in AGES[1:]},
    **{f"peaked {scale}": partial(peaked, float(scale)) for scale in (8, 16, 24, 30)},
    "dead state": partial(dead, 3.0, 0.0),
    "dead state far ahead": partial(dead, 3.0, 30.0),
    "dead state, peaked": partial(dead, 16.0, 10.0),
    "unreachable symbols": partial(unreachable, 3.0),
    "unreachable symbols, peaked": partial(unreachable, 16.0),
    "zero rules": partial(zeros, 3.0, False),
    "zero rules, peaked": partial(zeros, 16.0, False),
    "impossible sentences": partial(zeros, 3.0, True),
    "root apart": partial(root_apart, 20.0),
    "root far apart": partial(root_apart, 60.0),
    "children apart": partial(children_apart, 20.0, 3.0),
    "children far apart": partial(children_apart, 50.0, 3.0),
    "hollow row": partial(hollow, 84.0),
    "shadowed state": shadowed,
    "mixed lengths": partial(mixed, (12, 2, 7, 3, 1, 12), 4.0, False),
    "mixed lengths, peaked": partial(mixed, (14, 2, 9, 3, 5), 24.0, False),
    "own rules": partial(mixed, (9, 9, 9), 4.0, True),
    "own rules, mixed lengths": partial(mixed, (9, 2, 5), 16.0, True),
    "N 1": partial(sized, 1, 1, 7, 4.0),
    "N 3": partial(sized, 3, 5, 9, 4.0),
    "N 17": partial(sized, 17, 33, 9, 4.0),
    "N 63": partial(sized, 63, 7, 9, 4.0),
    "N 65": partial(sized, 65, 129, 9, 4.0),
    "length 2": partial(sized, 17, 31, 2, 4.0),
    "length 3, peaked": partial(sized, 17, 31, 3, 24.0),
    "length 60, peaked": partial(sized, 7, 13, 60, 16.0),
    "length 200": partial(sized, 7, 13, 200, 4.0),
}
# The fewer the states, the less the roundings average out; long sentences are slow, and average by themselves.
_DRAWS = {
    "hollow row": 8,
    "shadowed state": 8,
    "N 1": 16,
    "N 3": 8,
    "length 2": 8,
    "length 3, peaked": 8,
    "length 200": 1,
}


def draws(name: str) -> list[Stress]:
    """Several draws of a case."""
    return [CATALOGUE[name](draw) for draw in range(_DRAWS.get(name, 3))]
