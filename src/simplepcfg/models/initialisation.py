"""Initialisation with a given standard deviation of the logits, so that symbols differ from the first step on."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simplepcfg.models.networks import FeatureNorm, ResidualLayer, ResidualNetwork

# Factor by which W of a residual layer x + ReLU(W x + b) is larger than Xavier's initialisation. Parents and children
# share their embeddings, so that the logit f2(x) · f3(x) has a term x · x, by which every symbol would be its own most
# probable child. With a factor of 4 this term is a ninth of the size of the features.
LAYER_SCALE = 4.0
# Numbers of parents and children on which the share of dedicated preterminals is measured, to about 0.02.
SAMPLED_PARENTS = 128
SAMPLED_CHILDREN = 2048
BISECTIONS = 10


@torch.no_grad()
def set_initial_logit_std(
    model: nn.Module,
    deviation: float,
    *,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    words: tuple[float, ResidualNetwork, Tensor] | None = None,
) -> None:
    """Draw embeddings, and scale layers and gains, so that every logit f(w) · u has about this standard deviation.

    ``inputs`` are tables w that only networks read. Where the networks have RMS normalisation, their gains set the
    scale of the features, and the scale of such a table only sets how fast its directions change in training.
    ``outputs`` are tables u that are one side of a logit themselves. ``words`` has the standard deviation of emission
    logits, where it is another, with their network and their table of words. Other weights of the model are initialised
    already.
    """
    rms_norm = any(isinstance(module, FeatureNorm) for module in model.modules())
    for module in model.modules():
        if isinstance(module, ResidualLayer) and rms_norm:
            module.linear.weight.mul_(LAYER_SCALE)
    for table in inputs:
        _draw(table, 1.0 if rms_norm else deviation)
    for table in outputs:
        _draw(table, words[0] if words and table is words[2] else deviation)
    for module in model.modules():
        if isinstance(module, FeatureNorm):
            module.gains.mul_((words[0] if words and module is words[1][-1] else deviation) ** 0.5)


def _draw(table: Tensor, deviation: float) -> None:
    """Draw rows whose dot products with each other have this standard deviation."""
    nn.init.normal_(table, std=deviation**0.5 * table.shape[1] ** -0.25)


@torch.no_grad()
def initialise_dedicated_preterminals(
    parents: Tensor, children: Tensor, above: ResidualLayer, below: ResidualLayer, share: float
) -> float:
    """Give every nonterminal dedicated preterminals as left children, which together have this share of probability.

    With random rules the children of a nonterminal are hundreds of preterminals, and so its words are nearly all words:
    nonterminals are alike, however much preterminals differ. With dedicated preterminals each nonterminal has words of
    its own, as the state of a hidden Markov model has.

    `above` reads the embeddings of parents [N, D], `below` those of children [N + P, D], the last P of which are
    preterminals and are overwritten; both may be views of one table. `below` gets the weights of `above` with the two
    halves of its input exchanged, so that the logit of a parent is large for a child whose embedding resembles the
    parent's with its halves exchanged. The embeddings of preterminals are then rotated towards such embeddings of their
    nonterminals; bisection finds the angle that gives the share. Returns its cosine, which is 1 where the share cannot
    be reached.
    """
    if parents.is_meta:  # The model is built for its shapes alone.
        return 1.0
    half = parents.shape[1] // 2
    below.load_state_dict(above.state_dict())
    below.linear.weight.copy_(below.linear.weight.roll(half, 1))
    count, total = len(parents), len(children)
    tags = children[count:]
    owners = torch.arange(len(tags), device=tags.device) * count // len(tags)
    seen = min(count, SAMPLED_PARENTS)
    own = torch.arange(-(-seen * len(tags) // count), device=tags.device)  # preterminals of the sampled parents
    features = above(parents[:seen])
    others = torch.linspace(0, total - 1, min(total, SAMPLED_CHILDREN), device=tags.device).round().long()
    others_tags = others[others >= count] - count
    # The sampled children that are dedicated to a parent are masked, since they are counted separately.
    dedicated = torch.zeros(seen, len(others), dtype=torch.bool, device=tags.device)
    dedicated[:, others >= count] = owners[others_tags] == torch.arange(seen, device=tags.device)[:, None]

    def rotate(cosine: float, chosen: Tensor) -> Tensor:
        towards = parents[owners[chosen]].roll(half, 1)
        return cosine * towards + (1 - cosine**2) ** 0.5 * tags[chosen]

    def share_at(cosine: float) -> float:
        sampled = torch.cat([children[others[others < count]], rotate(cosine, others_tags)])
        logits = (features @ below(sampled).T).masked_fill(dedicated, -torch.inf)
        rest = torch.logsumexp(logits, 1) + torch.tensor(total / len(others)).log()
        own_logits = (features[owners[own]] * below(rotate(cosine, own))).sum(1)  # of each preterminal for its owner
        odds = torch.zeros_like(rest).index_add_(0, owners[own], (own_logits - rest[owners[own]]).exp())
        return float((odds / (1 + odds)).mean())

    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if share_at(middle) < share else (low, middle)
    tags.copy_(rotate(high, torch.arange(len(tags), device=tags.device)))
    return high
