"""How weights begin when logits, and with them symbols, are to differ from the first step on."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.models.networks import FeatureNorm, ResidualLayer, ResidualNetwork

# A residual layer x + ReLU(W x + b) begins with W this many times as large as Xavier's, where logits begin far apart.
# Parents and children share their embeddings, so f2(x) · f3(x) has a part x · x, by which a symbol would begin as its
# own most probable child; with 4 that part is a ninth of the features' size.
LAYER_SCALE = 4.0
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
    """Let every logit f(w) · u begin with about this standard deviation.

    Tables in `read` are seen through networks alone. Where those normalise what they give, gains say how large features
    are, and the size of such a table only how fast it turns. Tables in `scored` are one side of a logit themselves.
    `words` have a deviation of their own, with the network and the table that their logits come from.
    """
    rms_norm = any(isinstance(module, FeatureNorm) for module in model.modules())
    for module in model.modules():
        if isinstance(module, ResidualLayer) and rms_norm:
            module.linear.weight.mul_(LAYER_SCALE)
    for table in read:
        _draw(table, 1.0 if rms_norm else deviation)
    for table in scored:
        _draw(table, words[0] if words and table is words[2] else deviation)
    for module in model.modules():
        if isinstance(module, FeatureNorm):
            module.gains.mul_((words[0] if words and module is words[1][-1] else deviation) ** 0.5)


def _draw(table: Tensor, deviation: float) -> None:
    """Dot products of two such rows have this deviation."""
    nn.init.normal_(table, std=deviation**0.5 * table.shape[1] ** -0.25)


@torch.no_grad()
def give_dedicated_preterminals(
    parents: Tensor, children: Tensor, above: ResidualLayer, below: ResidualLayer, share: float
) -> float:
    """Let every nonterminal begin with dedicated preterminals as left children, which together have this share.

    Rules are drawn at random, so a nonterminal's children are hundreds of preterminals, and over those all its words:
    nonterminals begin alike, however different preterminals are. With preterminals of its own it has words of its own,
    as a state of a hidden Markov model has.

    `below` begins with the weights of `above`, the two halves of its input exchanged, so that a parent's logit is large
    for a child whose embedding resembles its own with the halves exchanged. Preterminals are then turned to such
    embeddings of their owners, as far as it takes. Gives the cosine that it took, 1 where the share is out of reach.

    Args:
        parents: ``[N, D]``, what `above` reads; children: ``[N + P, D]``, what `below` reads, the last P rows being
            preterminals, which are written to. Both may be views of one table.
    """
    if parents.is_meta:  # a model whose sizes alone are asked for
        return 1.0
    half = parents.shape[1] // 2
    below.load_state_dict(above.state_dict())
    below.linear.weight.copy_(below.linear.weight.roll(half, 1))
    count, total = len(parents), len(children)
    tags = children[count:]
    owners = torch.arange(len(tags), device=tags.device) * count // len(tags)
    seen = min(count, SAMPLED_PARENTS)
    own = torch.arange(-(-seen * len(tags) // count), device=tags.device)  # the preterminals of these
    features = above(parents[:seen])
    others = torch.linspace(0, total - 1, min(total, SAMPLED_CHILDREN), device=tags.device).round().long()
    others_tags = others[others >= count] - count
    # Which of the sampled children are dedicated to a parent: they are counted apart.
    dedicated = torch.zeros(seen, len(others), dtype=torch.bool, device=tags.device)
    dedicated[:, others >= count] = owners[others_tags] == torch.arange(seen, device=tags.device)[:, None]

    def turned(cosine: float, chosen: Tensor) -> Tensor:
        towards = parents[owners[chosen]].roll(half, 1)
        return cosine * towards + (1 - cosine**2) ** 0.5 * tags[chosen]

    def share_at(cosine: float) -> float:
        sampled = torch.cat([children[others[others < count]], turned(cosine, others_tags)])
        logits = (features @ below(sampled).T).masked_fill(dedicated, -torch.inf)
        rest = torch.logsumexp(logits, 1) + torch.tensor(total / len(others)).log()
        found = (features[owners[own]] * below(turned(cosine, own))).sum(1)  # of each preterminal with its owner
        mine = torch.zeros_like(rest).index_add_(0, owners[own], (found - rest[owners[own]]).exp())
        return float((mine / (1 + mine)).mean())

    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share_at(middle) < share else (low, middle)
    tags.copy_(turned(high, torch.arange(len(tags), device=tags.device)))
    return high
