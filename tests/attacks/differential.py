"""Random grammars of every family against `references`, for all backends and questions; a seed repeats each.

python tests/attack.py --only differential --grammars 10000 --seed 0
python -c "from attacks.differential import check; print(check('simple', 1234))"
"""

import random
import time
from dataclasses import replace

import torch

from attacks.chain_questions import check_chain
from attacks.comparison import same
from attacks.drawn_grammars import Drawn, draw, draw_chain
from attacks.outcomes import Outcome
from attacks.tree_questions import check_in_float32, check_left_to_right, check_questions
from simplepcfg.grammars import DenseGrammar

FAMILIES = ("simple", "dense", "rank", "hidden Markov")
INTERPRETED_EVERY = 100  # of these many grammars one is asked by Triton's interpreter too


def differential(count: int, seed: int = 0, interpreted: bool = True, seconds: float | None = None) -> list[Outcome]:
    """`count` grammars of each family; fewer if `seconds` are over."""
    families = {family: Outcome(f"differential: {family} grammars") for family in FAMILIES}
    began = time.monotonic()
    for number in range(seed, seed + count):
        if seconds is not None and time.monotonic() - began > seconds:
            break
        for family, outcome in families.items():
            outcome.count(check(family, number, interpreted and number % INTERPRETED_EVERY == 0))
    return list(families.values())


def check(family: str, seed: int, interpreted: bool = False) -> str | None:
    """What is wrong with one grammar's answers, or None."""
    rng = random.Random(f"{family} {seed}")
    try:
        if family == "hidden Markov":
            _check_chains(rng)
        else:
            _check_trees(draw(family, rng), rng, interpreted)
    except Exception as error:
        return f"check({family!r}, {seed}, {interpreted}): {type(error).__name__}: {error}"
    return None


def _check_trees(drawn: Drawn, rng: random.Random, interpreted: bool) -> None:
    """log Z by every backend, and all other questions by one of them, which changes from grammar to grammar."""
    sentences = drawn.sentences()
    words, lengths, bonus = drawn.words, drawn.lengths, drawn.bonus
    expected = torch.stack([sentence.log_z.detach() for sentence in sentences])
    for backend in drawn.backends:
        found = drawn.make(backend, torch.float64).log_partition(words, lengths, span_bonus=bonus)
        same(f"log Z by {backend}", found, expected)
    backend = rng.choice(drawn.backends)
    grammar = drawn.make(backend, torch.float64)
    try:
        check_questions(grammar, sentences, words, lengths, bonus)
    except Exception as error:
        raise type(error)(f"backend {backend}: {error}") from error
    if drawn.whole and bonus is None:
        check_left_to_right(drawn.make("torch", torch.float64), sentences, words, lengths)
    if interpreted and not isinstance(grammar, DenseGrammar):
        kernels, plain = (drawn.make(backend, torch.float32) for backend in ("triton", "torch"))
        check_in_float32(kernels, plain, sentences, words, lengths, bonus, drawn.whole)


def _check_chains(rng: random.Random) -> None:
    """All questions, of transitions in one matrix or as a product of two."""
    model, found = draw_chain(rng)
    if rng.random() < 0.5:
        ranks = rng.randint(1, 3)
        factors = (found.rows(found.states, ranks), found.rows(ranks, found.states))
        model = replace(model, transitions=factors)
    check_chain(model, found.words, found.lengths, whole=not found.zeros)
