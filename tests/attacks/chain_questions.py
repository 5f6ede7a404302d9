"""What a hidden Markov model answers, question for question, beside the shortest program for a chain."""

import math
from itertools import pairwise

import torch
from torch import Tensor

from attacks.comparison import same
from attacks.references import best_chains, chain_total
from simplepcfg.grammars import HiddenMarkovModel

LONGEST_SAMPLE = 4


def check_chain(grammar: HiddenMarkovModel, words: Tensor, lengths: Tensor, whole: bool) -> None:
    """All questions in float64; `whole` if rows sum to 1, without which there are no new sentences."""
    transitions = grammar.factors[0] if len(grammar.factors) == 1 else grammar.factors[0] @ grammar.factors[1]
    log_z = grammar.log_partition(words, lengths)
    tags = grammar.tag_marginals(words, lengths)
    sequences, scores = grammar.best_states(words, lengths)
    prefixes = grammar.prefix_log_probabilities(words, lengths)
    table = grammar.emissions.log_probabilities(words)
    for b, n in enumerate(lengths.tolist()):
        parts = [table[b, :n].detach().clone(), grammar.start.log(), transitions.log()]
        parts = [part.requires_grad_() for part in parts]
        expected = chain_total(*parts)
        same(f"log p of {b}", log_z[b], expected.detach())
        begun = [0.0, *(float(chain_total(parts[0][:m], *parts[1:]).detach()) for m in range(1, n + 1))]
        same(f"prefixes of {b}", prefixes[b, : n + 1], torch.tensor(begun, dtype=torch.float64))
        if expected == -math.inf:
            same(f"the score of the impossible sentence {b}", scores[b], -math.inf)
            continue
        (by_emissions, _, _) = torch.autograd.grad(expected, parts, retain_graph=True, allow_unused=True)
        same(f"states of {b}", tags[b, :n], by_emissions)
        emissions, start, steps = (part.detach().numpy() for part in parts)
        same(f"viterbi of {b}", scores[b], best_chains(emissions, start, steps, 1)[0])
        same(f"log p of states of {b}", scores[b], _score(sequences[b, :n].tolist(), emissions, start, steps))
    if whole:
        _check_following(grammar, transitions, words, lengths)
        _check_new_sentences(grammar, transitions)


def _score(states: list[int], emissions, start, transitions) -> float:
    """The log-weight of words and states."""
    score = float(start[states[0]])
    score += sum(float(transitions[one, other]) for one, other in pairwise(states))
    return score + sum(float(emissions[i, state]) for i, state in enumerate(states))


def _check_following(grammar: HiddenMarkovModel, transitions: Tensor, words: Tensor, lengths: Tensor) -> None:
    """P(next word | sentence) is the probability of the longer sentence over that of the shorter."""
    following = grammar.next_word_log_probabilities(words, lengths)
    logs = (grammar.start.log(), transitions.log())
    every = grammar.emissions.of_words(0, grammar.emissions.vocabulary_size)  # [V, S]
    for b, n in enumerate(lengths.tolist()):
        own = grammar.emissions.log_probabilities(words[b, :n])
        before = float(chain_total(own, *logs))
        for word, row in enumerate(every):
            after = float(chain_total(torch.cat([own, row[None]]), *logs))
            same(f"next word {word} of {b}", following[b, word], after - before, 1e-8 * (1 + abs(before)))


def _check_new_sentences(grammar: HiddenMarkovModel, transitions: Tensor) -> None:
    drawn = grammar.sample(2, max_length=LONGEST_SAMPLE, generator=torch.Generator().manual_seed(1))
    start, steps = grammar.start.log().numpy(), transitions.log().numpy()
    for words, states, n, log_p in zip(drawn.words, drawn.states, drawn.lengths, drawn.log_probabilities, strict=True):
        emissions = grammar.emissions.log_probabilities(words[:n]).numpy()
        same("log p of a random sentence", log_p, _score(states[:n].tolist(), emissions, start, steps))
