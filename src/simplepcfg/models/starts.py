"""How weights begin: drawn so that scores, and with them symbols, differ from the first step."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.models.networks import FeatureNorm, ResidualNetwork

# Shares of a start are measured on so many parents and children; it is enough for two hundredths.
SAMPLED_PARENTS = 128
SAMPLED_CHILDREN = 2048
HALVINGS = 10


@torch.no_grad()
def spread_scores(
    model: nn.Module,
    deviation: float,
    *,
    read: Sequence[Tensor],
    scored: Sequence[Tensor],
    words: tuple[float, ResidualNetwork, Tensor] | None = None,
) -> None:
    """Let every score f(w) · u begin with about this standard deviation.

    Tables in `read` are seen through networks alone. Where those normalise what they give, gains say how large features
    are, and the size of such a table only how fast it turns. Tables in `scored` are one side of a score themselves.
    `words` have a deviation of their own, with the network and the table that their scores come from.
    """
    normalised = any(isinstance(module, FeatureNorm) for module in model.modules())
    for table in read:
        _draw(table, 1.0 if normalised else deviation)
    for table in scored:
        _draw(table, words[0] if words and table is words[2] else deviation)
    for module in model.modules():
        if isinstance(module, FeatureNorm):
            module.gains.mul_((words[0] if words and module is words[1][-1] else deviation) ** 0.5)


def _draw(table: Tensor, deviation: float) -> None:
    """Products of two such rows have this deviation."""
    nn.init.normal_(table, std=deviation**0.5 * table.shape[1] ** -0.25)


@torch.no_grad()
def give_own_tags(
    parents: Tensor, children: Tensor, above: ResidualNetwork, below: ResidualNetwork, share: float
) -> float:
    """Let every nonterminal begin with preterminals of its own as children, which together have this share.

    Rules are drawn at random, so a nonterminal's children are hundreds of preterminals, and over those all its words:
    nonterminals begin alike, however different preterminals are. With tags of its own it has words of its own, as a
    state of a hidden Markov model has.

    `above` and `below` become the same function of embeddings whose halves are exchanged, so that a parent scores a
    child high whose embedding resembles its own with the halves exchanged. Preterminals are then turned to such
    embeddings of their owners, as far as it takes. Gives the cosine that it took, 1 where the share is out of reach.

    Args:
        parents: ``[N, D]``, what `above` reads; children: ``[N + P, D]``, what `below` reads, the last P rows being
            preterminals, which are written to. Both may be views of one table.
    """
    if parents.is_meta:  # a model whose sizes alone are asked for
        return 1.0
    half = parents.shape[1] // 2
    below.load_state_dict(above.state_dict())
    first: nn.Linear = below[0]  # type: ignore[assignment]
    first.weight.copy_(first.weight.roll(half, 1))
    count = len(parents)
    tags = children[count:]
    owners = torch.arange(len(tags), device=tags.device) * count // len(tags)
    seen = min(count, SAMPLED_PARENTS)
    own = slice(0, -(-seen * len(tags) // count))  # the preterminals of these
    features = above(parents[:seen])
    others = children[torch.linspace(0, len(children) - 1, min(len(children), SAMPLED_CHILDREN)).round().long()]
    scores = features @ below(others).T
    rest = torch.logsumexp(scores, 1) + torch.tensor(len(children) / len(others)).log()

    def turned(cosine: float, chosen: slice) -> Tensor:
        towards = parents[owners[chosen]].roll(half, 1)
        return cosine * towards + (1 - cosine**2) ** 0.5 * tags[chosen]

    def share_at(cosine: float) -> float:
        found = (features[owners[own]] * below(turned(cosine, own))).sum(1)  # of each tag with its owner
        mine = torch.zeros_like(rest).index_add_(0, owners[own], (found - rest[owners[own]]).exp())
        return float((mine / (1 + mine)).mean())

    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share_at(middle) < share else (low, middle)
    tags.copy_(turned(high, slice(None)))
    return high
