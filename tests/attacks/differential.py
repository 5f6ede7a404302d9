"""Random grammars of every family against `references`, for all backends and questions; a seed repeats each.

python tests/attack.py --only differential --grammars 10000 --seed 0
python -c "from attacks.differential import check; print(check('simple', 1234))"
"""

import contextlib
import math
import random

import torch
from torch import Tensor

from attacks.outcomes import Outcome
from attacks.references import best_bracketing, chain_total, entropy_of, exact_max, tree_total
from simplepcfg.errors import NumericalError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, HiddenMarkovModel, RankGrammar, SimpleGrammar
from simplepcfg.ops.dense import BACKENDS as DENSE_BACKENDS
from simplepcfg.ops.inside import BACKENDS, inside

FAMILIES = ("simple", "dense", "rank", "hidden Markov")
# Paper's backends and Triton's run in an interpreter here, a hundred times slower: every so many grammars.
INTERPRETED_EVERY = 50
INTERPRETED = ("triton", "paper", "paper_recompute")
WORDS = 6


class Differs(Exception):
    """An answer is not the reference's."""


def differential(count: int, seed: int = 0, interpreted: bool = True) -> list[Outcome]:
    """`count` grammars of each family."""
    found = []
    for family in FAMILIES:
        outcome = Outcome(f"differential: {family} grammars")
        found.append(outcome)
        for number in range(seed, seed + count):
            outcome.count(check(family, number, interpreted and number % INTERPRETED_EVERY == 0))
    return found


def check(family: str, seed: int, interpreted: bool = False) -> str | None:
    """What is wrong with one grammar's answers, or None."""
    try:
        _check(family, random.Random(f"{family} {seed}"), interpreted)
    except Exception as error:
        return f"check({family!r}, {seed}, {interpreted}): {type(error).__name__}: {error}"
    return None


def _check(family: str, rng: random.Random, interpreted: bool) -> None:
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    states, tags, batch, n = rng.randint(1, 5), rng.randint(1, 6), rng.randint(1, 3), rng.randint(2, 6)
    scale, zeros = rng.choice([0.3, 2.0, 8.0, 25.0]), rng.choice([0.0, 0.0, 0.4])
    lengths = torch.tensor([n, *(rng.randint(1, n) for _ in range(batch - 1))])
    words = torch.randint(0, WORDS, (batch, n), generator=generator)

    def rows(*size: int) -> Tensor:
        logits = torch.randn(*size, generator=generator, dtype=torch.float64) * scale
        found = logits.softmax(-1)
        return found * (torch.rand(size, generator=generator) >= zeros) if zeros else found

    emit = rows(tags if family != "hidden Markov" else states, WORDS)
    emissions = DenseEmissions(emit.log())
    if family == "hidden Markov":
        _check_chain(HiddenMarkovModel(rows(states), rows(states, states), emissions), words, lengths)
        return
    symbols = states + tags
    root = rows(states)
    if family == "simple":
        left, right = rows(states, symbols), rows(states, symbols)
        grammar = SimpleGrammar(root, left, right, emissions)
        rules = left[:, :, None] * right[:, None]
    elif family == "dense":
        rules = rows(states, symbols * symbols).view(states, symbols, symbols)
        grammar = DenseGrammar(root, rules, emissions)
    else:
        ranks = rng.randint(1, 4)
        up, to_left, to_right = rows(states, ranks), rows(ranks, symbols), rows(ranks, symbols)
        grammar = RankGrammar(root, up, to_left, to_right, emissions)
        rules = torch.einsum("ar,rb,rc->abc", up, to_left, to_right)
    bonus = None
    if rng.random() < 0.5:
        bonus = torch.randn(batch, n + 1, n + 1, generator=generator, dtype=torch.float64)
        bonus[torch.rand(bonus.shape, generator=generator) < 0.1] = -math.inf
        for b, length in enumerate(lengths.tolist()):  # one tree stays: questions without any are refused
            bonus[b, : length - 1, length] = 0.5
    _check_trees(grammar, root, rules, emit, words, lengths, bonus, whole=not zeros)
    if family == "simple":
        _check_backends(grammar, words, lengths, bonus, interpreted)
    elif family == "dense":
        expected = grammar.log_partition(words, lengths, span_bonus=bonus)
        for backend in DENSE_BACKENDS:
            other = DenseGrammar(root, rules, emissions, backend=backend)
            _same(f"backend {backend}", other.log_partition(words, lengths, span_bonus=bonus), expected)


def _check_trees(
    grammar,
    root: Tensor,
    rules: Tensor,
    emit: Tensor,
    words: Tensor,
    lengths: Tensor,
    bonus: Tensor | None,
    whole: bool,
) -> None:
    log_z = grammar.log_partition(words, lengths, span_bonus=bonus)
    marginals = grammar.span_marginals(words, lengths, span_bonus=bonus)
    trees = grammar.decode(words, lengths, span_bonus=bonus)
    viterbi = grammar.viterbi(words, lengths, span_bonus=bonus).to_list()
    entropy = grammar.entropy(words, lengths, span_bonus=bonus)
    best = grammar.k_best(words, lengths, k=3, span_bonus=bonus)
    tags = grammar.tag_marginals(words, lengths, span_bonus=bonus)
    for b, n in enumerate(lengths.tolist()):
        own = torch.zeros(n + 1, n + 1, dtype=torch.float64) if bonus is None else bonus[b, : n + 1, : n + 1].clone()
        parts = [emit.log()[:, words[b, :n]].T.clone(), root.log(), rules.log(), own]
        parts = [part.requires_grad_() for part in parts]
        expected = tree_total(*parts)
        _same(f"log Z of sentence {b}", log_z[b], expected.detach())
        if expected == -math.inf:
            continue
        by_emissions, by_bonus = torch.autograd.grad(expected, [parts[0], parts[3]], retain_graph=True)
        _same(f"span marginals of {b}", marginals[b, : n + 1, : n + 1], by_bonus)
        _same(f"tag marginals of {b}", tags[b, :n], by_emissions)
        _same(
            f"entropy of {b}",
            entropy[b],
            _exact(entropy_of(expected, parts)),
            1e-6 * (1 + abs(float(expected.detach()))),
        )
        top = tree_total(*(part.detach() for part in parts), reduce=exact_max)
        _same(f"viterbi of {b}", _exact(viterbi[b].log_probability), top)
        _same(f"k best of {b}", _exact(best[b][0].log_probability), top)
        values = [tree.log_probability for tree in best[b]]
        if values != sorted(values, reverse=True):
            raise Differs(f"k best of {b} are not in order: {values}")
        if bonus is None:
            total = sum(float(by_bonus[i, j]) for i, j in trees[b])
            _same(f"decoded tree of {b}", _exact(total), _exact(best_bracketing(by_bonus)), 1e-6)
    if whole and bonus is None:
        # Of very peaked grammars some have no prefix probabilities, and say so.
        with contextlib.suppress(NumericalError):
            after = grammar.next_word_log_probabilities(words, lengths).exp().sum(-1)
            _same("next words", after, torch.ones_like(after), 1e-5)


def _check_backends(
    grammar: SimpleGrammar, words: Tensor, lengths: Tensor, bonus: Tensor | None, interpreted: bool
) -> None:
    given = [grammar.emissions.log_probabilities(words), grammar.root, grammar.left, grammar.right]
    expected = inside(*given, lengths=lengths, span_bonus=bonus, backend="naive")
    for backend in BACKENDS:
        if backend in INTERPRETED:
            if not interpreted or (backend != "triton" and (bonus is not None or bool((lengths != lengths[0]).any()))):
                continue
            single = [tensor.float() for tensor in given]
            found = inside(
                *single, lengths=lengths, span_bonus=None if bonus is None else bonus.float(), backend=backend
            )
            possible = expected > -60  # the authors' form adds 1e-9 inside a logarithm
            if backend == "triton":
                _same(
                    "backend triton in float32",
                    found.double(),
                    expected,
                    2e-4 * (1 + expected.abs().nan_to_num(0, 0, 0)),
                )
            elif bool(possible.all()) and bool((expected > -20).all()):
                _same(f"backend {backend} in float32", found.double(), expected, 1e-2 * (1 + expected.abs()))
            continue
        _same(f"backend {backend}", inside(*given, lengths=lengths, span_bonus=bonus, backend=backend), expected)


def _check_chain(grammar: HiddenMarkovModel, words: Tensor, lengths: Tensor) -> None:
    log_z = grammar.log_partition(words, lengths)
    naive = HiddenMarkovModel(grammar.start, grammar.transitions, grammar.emissions, backend="naive")
    _same("backend naive", naive.log_partition(words, lengths), log_z)
    tags = grammar.tag_marginals(words, lengths)
    _, scores = grammar.best_states(words, lengths)
    entropy = grammar.entropy(words, lengths)
    table = grammar.emissions.log_probabilities(words)
    for b, n in enumerate(lengths.tolist()):
        parts = [table[b, :n].detach().clone(), grammar.start.log(), grammar.transitions.log()]  # type: ignore[union-attr]
        parts = [part.requires_grad_() for part in parts]
        expected = chain_total(*parts)
        _same(f"log p of {b}", log_z[b], expected.detach())
        if expected == -math.inf:
            continue
        (by_emissions, _, _) = torch.autograd.grad(expected, parts, retain_graph=True, allow_unused=True)
        _same(f"states of {b}", tags[b, :n], by_emissions)
        _same(f"viterbi of {b}", scores[b], chain_total(*(part.detach() for part in parts), reduce=exact_max))
        if n > 1:
            _same(
                f"entropy of {b}",
                entropy[b],
                _exact(entropy_of(expected, parts)),
                1e-7 * (1 + abs(float(expected.detach()))),
            )


def _exact(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _same(what: str, found: Tensor, expected: Tensor, tolerance: float | Tensor = 1e-8) -> None:
    found, expected = found.detach().double(), expected.detach().double()
    both = (found == expected) | ((found - expected).abs() <= tolerance + 1e-9 * expected.abs())
    if not bool(both.all()):
        worst = (found - expected).abs().nan_to_num(math.inf).max()
        raise Differs(
            f"{what}: {found.flatten()[:4].tolist()} instead of {expected.flatten()[:4].tolist()} ({worst:.3g})"
        )
