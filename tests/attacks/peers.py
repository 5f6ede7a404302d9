"""The same random grammars beside other libraries: torch-struct's SentCFG and hmmlearn's CategoricalHMM.

python -c "from attacks.peers import check; print(check('torch-struct', 1234))"
"""

import random
import warnings
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import torch

from attacks.comparison import same
from attacks.drawn_grammars import WORDS, draw, draw_chain
from simplepcfg.grammars import DenseGrammar

LEAST = 1e-30  # the probability that impossible rules get for a peer that has none


def missing(peer: str) -> bool:
    """Whether a peer is not installed."""
    try:
        version(peer)
    except PackageNotFoundError:
        return True
    return False


def check(peer: str, seed: int) -> str | None:
    """What is answered otherwise than by a peer, or None; grammars are those of `attacks.differential`."""
    try:
        PEERS[peer](seed)
    except Exception as error:
        return f"peers.check({peer!r}, {seed}): {type(error).__name__}: {error}"
    return None


def _torch_struct(seed: int) -> None:
    """log Z, marginals of words, rules and symbols over spans, and the best derivation of ordinary PCFGs.

    It has no span bonus and no sentences of one word, and takes −100,000 for −inf, so that every rule is possible here.
    """
    from torch_struct import SentCFG

    drawn = draw("dense", random.Random(f"dense {seed}"))
    keep = drawn.lengths > 1
    words, lengths = drawn.words[keep], drawn.lengths[keep]
    rules, root, emit = (part.clamp(min=LEAST).log() for part in (drawn.rules, drawn.root, drawn.emit))
    batch = len(words)
    given = (emit[:, words].permute(1, 2, 0), rules.expand(batch, *rules.shape), root.expand(batch, -1))
    grammar = DenseGrammar(root.exp(), rules.exp())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it declares no arg_constraints
        theirs = SentCFG(tuple(part.contiguous() for part in given), lengths=lengths)
    same("log Z", grammar.log_partition(given[0], lengths), theirs.partition)
    tags, uses, roots, symbols = (part.detach() for part in theirs.marginals)
    same("tag marginals", grammar.tag_marginals(given[0], lengths), tags)
    counts = grammar.rule_counts(given[0], lengths)
    same("counts of rules", counts.rules, uses.sum(0))
    same("counts of root rules", counts.root, roots.sum(0))
    ours = grammar.symbol_marginals(given[0], lengths)
    n = words.shape[1]
    for width in range(2, n + 1):
        spans = torch.diagonal(ours, width, 1, 2).transpose(1, 2)  # [B, spans, N]
        same(f"symbol marginals of width {width}", spans, symbols[:, width - 2, : n + 1 - width])
    parts = [part.detach() for part in theirs.argmax[:3]]
    best = sum((use * log).flatten(1).sum(1) for use, log in zip(parts, given, strict=True))
    same("viterbi", grammar.viterbi(given[0], lengths).log_probability, best)


def _hmmlearn(seed: int) -> None:
    """log p, marginals of states and the best sequence of hidden Markov models whose rows sum to 1."""
    from hmmlearn.hmm import CategoricalHMM

    model, drawn = draw_chain(random.Random(f"hidden Markov {seed}"))
    emit = model.emissions.of_words(0, WORDS).exp().T  # [S, V]
    rows = [model.start, model.transitions, emit]
    if drawn.zeros:  # rows of zeros become even ones: it takes distributions only
        rows = [_normalised(part) for part in rows]
    start, transitions, emit = rows
    theirs = CategoricalHMM(n_components=len(start), n_features=WORDS)
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = (part.numpy() for part in rows)
    grammar = type(model)(start, transitions)
    for words, n in zip(drawn.words, drawn.lengths.tolist(), strict=True):
        observed = words[:n].numpy().astype(np.int64)[:, None]
        given = emit.log().T[words[:n]][None]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p, states = theirs.score_samples(observed)
            best, _ = theirs.decode(observed)
        same("log p", grammar.log_partition(given)[0], log_p)
        same("viterbi", grammar.best_states(given)[1][0], best)
        if np.isfinite(log_p):
            same("marginals of states", grammar.tag_marginals(given)[0], torch.from_numpy(states))


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    total = rows.sum(-1, keepdim=True)
    return torch.where(total > 0, rows / total, 1.0 / rows.shape[-1])


PEERS = {"torch-struct": _torch_struct, "hmmlearn": _hmmlearn}
