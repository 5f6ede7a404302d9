"""Encoder, ELBO, importance sampling and random sentences against numerical integration over a z of one dimension."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, SimpleGrammar
from simplepcfg.inference.derivations import sample_blocks
from simplepcfg.models.compound import CompoundConfig, CompoundModel, Posterior, SentenceEncoder
from simplepcfg.models.cpcfg import CPCFGConfig

WORDS = torch.tensor([[1, 2, 3, 1], [3, 3, 1, 0], [2, 1, 0, 0]])
LENGTHS = torch.tensor([4, 3, 2])


class TinyCompound(CompoundModel):
    """A compound grammar of two nonterminals and two preterminals whose scores are linear in a z of one dimension."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        super().__init__(CompoundConfig(latent=1, encoder=5), vocabulary_size=4)
        self.scores = nn.ModuleList(nn.Linear(1, count) for count in (2, 8, 8, 6))
        self.double()

    def grammar_of(self, z: Tensor) -> SimpleGrammar:
        root, left, right, emit = (network(3 * z) for network in self.scores)
        tables = emit.view(-1, 2, 3).log_softmax(-1)
        padding = tables.new_full((*tables.shape[:-1], 1), -torch.inf)
        left, right = (scores.view(-1, 2, 4).softmax(-1) for scores in (left, right))
        return SimpleGrammar(root.softmax(-1), left, right, DenseEmissions(torch.cat((padding, tables), -1)))


def integral(model: TinyCompound, sentences: Tensor = WORDS, lengths: Tensor = LENGTHS) -> Tensor:
    """log p(x) = log ∫ p(x | z) N(z; 0, 1) dz by the rectangle rule, which is exact to rounding here: [B]."""
    points = torch.linspace(-12, 12, 1201, dtype=torch.float64)
    prior = -0.5 * points.square() - 0.5 * math.log(2 * math.pi)
    found = []
    for words, length in zip(sentences, lengths, strict=True):
        repeated = words[None, :length].expand(len(points), -1)
        scores = model.grammar_of(points[:, None]).log_partition(repeated)
        found.append((scores + prior).logsumexp(0) + math.log(24 / 1200))
    return torch.stack(found)


@pytest.fixture(scope="module")
def model() -> TinyCompound:
    return TinyCompound()


def copies(count: int) -> tuple[Tensor, Tensor]:
    """Each sentence many times over: independent draws in one batch."""
    return WORDS.repeat_interleave(count, 0), LENGTHS.repeat_interleave(count)


@torch.no_grad()
def test_random_sentences_come_as_often_as_they_should() -> None:
    """Of two words: by the z that make such sentences, not by all alike. Seeds change them, the same seed does not.

    With these weights, taking all z alike would be 10 standard deviations off, so that few sentences are enough.
    """
    model = TinyCompound(seed=10)
    vocabulary = SimpleNamespace(decode=lambda ids: [str(number) for number in ids])
    run = SimpleNamespace(
        shares_rules=False,
        device=torch.device("cpu"),
        model=model,
        vocabulary=vocabulary,
        preprocessing=SimpleNamespace(eos=False),
    )

    def drawn(count: int, seed: int) -> tuple[list[tuple[str, ...]], float]:
        blocks = list(sample_blocks(run, count, 2, 1.0, seed))  # type: ignore[arg-type]
        shares = [block.kept for block in blocks]
        return [item.tree.words for block in blocks for item in block.trees], sum(shares) / len(shares)

    pairs = torch.cartesian_prod(torch.arange(1, 4), torch.arange(1, 4))
    expected = integral(model, pairs, torch.full((9,), 2)).exp()
    count = 160
    words, kept = drawn(count, seed=0)
    assert kept == pytest.approx(float(expected.sum()), rel=0.1)
    for pair, share in zip(pairs.tolist(), expected / expected.sum(), strict=True):
        found = words.count(tuple(map(str, pair))) / count
        assert found == pytest.approx(float(share), abs=4.5 * math.sqrt(float(share) / count))
    assert drawn(8, seed=1) == drawn(8, seed=1) != drawn(8, seed=2)


def test_random_sentences_that_are_all_too_long_are_refused() -> None:
    model = TinyCompound()
    with torch.no_grad():
        for scores in (model.scores[1], model.scores[2]):
            scores.bias.view(2, 4)[:, :2] += 6.0  # nonterminals below nonterminals, hardly ever a word
    run = SimpleNamespace(shares_rules=False, device=torch.device("cpu"), model=model)
    with pytest.raises(InputError, match=r"sentences of at most 2 words have .* give a larger max_length"):
        next(sample_blocks(run, 3, 2, 1.0, 0))  # type: ignore[arg-type]


@torch.no_grad()
def test_elbo_is_below_the_integral_and_what_quadrature_says(model: TinyCompound) -> None:
    posterior = model.posterior(WORDS, LENGTHS)
    points = torch.linspace(-9, 9, 601, dtype=torch.float64)
    weights = (-0.5 * points.square()).softmax(0)
    every = Posterior(*(part.repeat_interleave(601, 0) for part in (posterior.mean, posterior.log_variance)))
    z = every.reparameterise(points.repeat(3)[:, None])
    scores = model.grammar_of(z).log_partition(*copies(601)).view(3, 601)
    mean = scores @ weights
    exact = mean - posterior.divergence()
    assert (exact < integral(model)).all()
    found = model.elbo(*copies(3000), samples=1, generator=torch.Generator().manual_seed(1)).view(3, 3000)
    deviation = ((scores - mean[:, None]).square() @ weights).sqrt()
    assert ((found.mean(1) - exact).abs() < 4 * deviation / 3000**0.5).all()


@torch.no_grad()
def test_importance_sampling_converges_to_the_integral(model: TinyCompound) -> None:
    truth, generator = integral(model), torch.Generator().manual_seed(2)
    weights = model.importance_log_likelihood(*copies(20000), samples=1, generator=generator).view(3, 20000)
    torch.testing.assert_close(weights.logsumexp(1) - math.log(20000), truth, atol=0.02, rtol=0)
    means = [weights.mean(1)]  # one sample: the ELBO
    for samples in (2, 8):
        found = model.importance_log_likelihood(*copies(4000), samples=samples, generator=generator)
        means.append(found.view(3, 4000).mean(1))
    for below, above in zip(means, [*means[1:], truth], strict=True):
        assert (below < above).all()
    elbo = model.elbo(*copies(4000), samples=4, generator=generator).view(3, 4000).mean(1)
    torch.testing.assert_close(elbo, means[0], atol=5 * float(weights.std(1).max()) / 4000**0.5, rtol=0)


def test_divergence_and_ratio_against_torch_distributions() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance, noise = (torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(3))
    posterior = Posterior(mean, log_variance)
    q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    p = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    torch.testing.assert_close(posterior.divergence(), torch.distributions.kl_divergence(q, p).sum(-1))
    z = posterior.reparameterise(noise)
    torch.testing.assert_close(posterior.log_ratio(noise), (p.log_prob(z) - q.log_prob(z)).sum(-1))


def test_encoder_reads_each_sentence_as_if_it_were_alone() -> None:
    torch.manual_seed(0)
    encoder = SentenceEncoder(9, 6, 3).double()
    lengths = torch.tensor([5, 1, 3, 5])
    words = torch.randint(1, 9, (4, 5))
    words[torch.arange(5) >= lengths[:, None]] = 0
    together = encoder(words, lengths)
    for row, length in enumerate(lengths):
        alone = encoder(words[row : row + 1, :length])
        torch.testing.assert_close(together.mean[row], alone.mean[0])
        torch.testing.assert_close(together.log_variance[row], alone.log_variance[0])


def test_encoder_gradients_do_not_see_padding() -> None:
    torch.manual_seed(0)
    encoder = SentenceEncoder(9, 6, 3).double()
    words = torch.tensor([[4, 2, 7, 0, 0], [1, 2, 3, 4, 5]])
    found = torch.autograd.grad(encoder(words, torch.tensor([3, 5])).mean.sum(), list(encoder.parameters()))
    one = encoder(words[:1, :3]).mean.sum() + encoder(words[1:]).mean.sum()
    for a, b in zip(found, torch.autograd.grad(one, list(encoder.parameters())), strict=True):
        torch.testing.assert_close(a, b)
    assert (found[0][0] == 0).all()  # padding's own embedding


def test_encoder_is_a_bidirectional_lstm_with_max_pooling() -> None:
    torch.manual_seed(0)
    encoder = SentenceEncoder(9, 6, 3).double()
    twin = nn.LSTM(6, 6, batch_first=True, bidirectional=True).double()
    weights = encoder.rightwards.state_dict()
    weights |= {f"{name}_reverse": tensor for name, tensor in encoder.leftwards.state_dict().items()}
    twin.load_state_dict(weights)
    words = torch.randint(1, 9, (3, 7))
    states = twin(encoder.word_embeddings(words))[0].amax(1)
    torch.testing.assert_close(encoder(words).mean, encoder.output(states)[:, :3])


def test_loss_is_the_negative_bound_at_the_drawn_z(model: TinyCompound) -> None:
    torch.manual_seed(5)
    loss = model.loss(WORDS, LENGTHS)
    torch.manual_seed(5)
    posterior = model.posterior(WORDS, LENGTHS)
    z = posterior.reparameterise(torch.randn(3, 1, dtype=torch.float64))
    expected = posterior.divergence() - model.grammar_of(z).log_partition(WORDS, LENGTHS)
    torch.testing.assert_close(loss, expected)
    assert all(gradient is not None for gradient in torch.autograd.grad(loss.sum(), list(model.parameters())))


@torch.no_grad()
def test_score_is_that_of_the_posterior_mean_and_repeats(model: TinyCompound) -> None:
    posterior = model.posterior(WORDS, LENGTHS)
    expected = model.grammar(WORDS, LENGTHS).log_partition(WORDS, LENGTHS) - posterior.divergence()
    assert torch.equal(model.log_likelihood(WORDS, LENGTHS), expected)
    assert torch.equal(model.log_likelihood(WORDS, LENGTHS), expected)


def test_what_cannot_be_asked_is_refused(model: TinyCompound) -> None:
    with pytest.raises(InputError, match="a grammar for each sentence"):
        model.grammar()
    with pytest.raises(InputError, match="samples = 0"):
        model.importance_log_likelihood(WORDS, LENGTHS, samples=0, generator=torch.Generator())
    with pytest.raises(InputError, match=r"model.latent = 0"):
        CPCFGConfig(latent=0)
