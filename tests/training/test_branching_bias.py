"""Steps with a branching bias: what they count, that they end, and that the trees then branch to that side."""

import signal
from pathlib import Path

import pytest
import torch

from oracle import binary_trees
from simplepcfg.data.batching import Batch, collate
from simplepcfg.errors import InputError
from simplepcfg.models import NeuralHMMConfig, build_model
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from simplepcfg.training.step.span_prior import SpanPrior, bias_note, branching_prior, require_trees, span_prior
from step_checks import FakeCapturer, largest_difference, make_step, mixed_batches, tiny_model, weights
from toy_runs import SignalAt, differences

LENGTHS = torch.tensor([5, 3])


def biased_by(weight: float, batch: Batch) -> SpanPrior | None:
    return branching_prior(weight, batch.words.shape[1], batch.lengths) if weight else None


@pytest.mark.parametrize("weight", [0.5, -0.5])
def test_trees_of_one_side_gather_most(weight: float) -> None:
    """Over all trees of sentences of five and three words."""
    prior = branching_prior(weight, 5, LENGTHS)
    bonus, most = prior.bonus, prior.most
    for sentence, n in enumerate(LENGTHS.tolist()):
        trees = [[span for span, _ in tree if span[1] - span[0] > 1] for tree in binary_trees(0, n)]
        gathered = [float(sum(bonus[sentence, i, j] for i, j in tree)) for tree in trees]
        best = trees[gathered.index(max(gathered))]
        assert max(gathered) == pytest.approx(float(most[sentence]))
        assert len(best) == n - 1
        assert all((j == n) if weight > 0 else (i == 0) for i, j in best)
        assert min(gathered) == pytest.approx(0.5)  # the whole sentence is a span of every tree


@pytest.mark.parametrize("weight", [0.5, -0.5])
def test_long_spans_and_pairs_by_hand(weight: float) -> None:
    prior = branching_prior(weight, 5, LENGTHS, shortest=4, pairs=0.25)
    ends = {(0, 5), (1, 5)} if weight > 0 else {(0, 4), (0, 5)}
    for i in range(5):
        for j in range(i + 2, 6):
            expected = 0.5 if (i, j) in ends else 0.25 if j == i + 2 else 0.0
            assert float(prior.bonus[0, i, j]) == expected
            if j <= 3:
                assert float(prior.bonus[1, i, j]) == (0.25 if j == i + 2 else 0.0)
    for sentence, n in enumerate(LENGTHS.tolist()):
        trees = [[span for span, _ in tree if span[1] - span[0] > 1] for tree in binary_trees(0, n)]
        gathered = [float(sum(prior.bonus[sentence, i, j] for i, j in tree)) for tree in trees]
        assert max(gathered) <= float(prior.most[sentence])


def test_biases_end_after_their_steps() -> None:
    batch = collate([[1] * 5, [1] * 3], [0, 1])

    def largest(step: int, breaks: list[list[int]] | None = None, **settings: float) -> float | None:
        prior = span_prior(TrainingConfig(branching_bias_steps=3, **settings), step, breaks, batch)
        return None if prior is None else float(prior.bonus.max())

    assert [largest(step, branching_bias=-0.25) for step in range(5)] == [0.25, 0.25, 0.25, None, None]
    assert [largest(step, pair_bias=0.5) for step in (2, 3)] == [0.5, None]
    assert largest(0) is None
    both = [largest(step, [[2], []], branching_bias=1.0, punctuation_weight=2.0) for step in (2, 3)]
    assert both == [1.0, 0.0]


def test_a_bias_of_most_steps_is_remarked_on() -> None:
    settings = TrainingConfig(branching_bias=0.4, branching_bias_steps=600, epochs=2, batch_size=16)
    assert "branching_bias: on for 600 of 616 steps, so that trees may" in (bias_note(settings, 4923) or "")
    assert "for 20 of 20 steps" in (bias_note(settings, 160) or "")
    both = settings.model_copy(update={"pair_bias": 1.0})
    assert "training.branching_bias and pair_bias: on" in (bias_note(both, 160) or "")
    assert bias_note(settings, 600 * 16) is None
    assert bias_note(settings.model_copy(update={"branching_bias": 0.0}), 160) is None


def test_a_model_without_trees_says_so() -> None:
    model = build_model(NeuralHMMConfig(states=3, embedding=4), 5)
    with pytest.raises(InputError, match=r"branching_bias = 0\.25: a model of kind hmm has no trees; set it to 0"):
        require_trees(model.config, TrainingConfig(branching_bias=0.25))
    with pytest.raises(InputError, match=r"pair_bias = 0\.5: a model of kind hmm has no trees; set it to 0"):
        require_trees(model.config, TrainingConfig(pair_bias=0.5))
    require_trees(model.config, TrainingConfig())
    require_trees(tiny_model().config, TrainingConfig(branching_bias=0.25, check_identity=True))


def test_what_is_counted_is_a_bound_captured_or_not() -> None:
    """The counted loss is −log of the biased sum plus the largest bonus of a tree: never below −log p."""
    batches = [batch for batch in mixed_batches(40) if batch.words.shape[1] > 2][:12]
    for batch in batches:
        model, capturer = tiny_model(), FakeCapturer()
        with torch.no_grad():
            exact = float(model.loss(batch.words, batch.lengths).sum())
        step = make_step(model, capturer=capturer, captured_shapes=8)
        for _ in range(3):
            step.gradients.clear()
            step(batch, len(batch), 0.0, prior=biased_by(0.5, batch))
        equal = len(set(batch.lengths.tolist())) == 1
        assert len(step.gradient_runner.shapes) == int(equal)
        prior = branching_prior(0.5, batch.words.shape[1], batch.lengths)
        with torch.no_grad():
            biased = float((model.loss(batch.words, batch.lengths, span_bonus=prior.bonus) + prior.most).sum())
        counted = step.counters.read()
        assert any(value == pytest.approx(3 * biased, rel=1e-5) for value in counted)
        assert biased >= exact


def test_captured_steps_follow_the_bias_of_each_step() -> None:
    """A shape with a bias and the same shape without one are captured apart, and the weight may change."""
    words = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    batch, weights_found = collate(words.tolist(), range(2)), []
    for shapes in (0, 8):
        model, capturer = tiny_model(), FakeCapturer()
        step = make_step(model, capturer=capturer, captured_shapes=shapes)
        for weight in (0.5, 0.5, 0.0, 0.0, -0.7, 0.0, 0.2, -0.7):
            step(batch, 2, 0.01, prior=biased_by(weight, batch))
        assert len(step.gradient_runner.shapes) == (2 if shapes else 0)
        weights_found.append(weights(model))
    assert largest_difference(*weights_found) == 0


@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_trees_branch_to_that_side_afterwards(weight: float) -> None:
    """Words drawn at random have no structure: the bias alone decides, and stays when it has ended."""
    torch.manual_seed(0)
    model = tiny_model(dtype=torch.float32)
    step, generator = make_step(model), torch.Generator().manual_seed(1)
    for number in range(60):
        words = torch.randint(1, 12, (8, 6), generator=generator)
        batch = collate(words.tolist(), range(8))
        step(batch, 8, 0.01, prior=biased_by(weight if number < 40 else 0.0, batch))
    model.eval()
    with torch.no_grad():
        trees = model.grammar().decode(words)
    spans = [span for tree in trees for span in tree if span != (0, 6)]
    on_side = sum((j == 6) if weight > 0 else (i == 0) for i, j in spans)
    assert on_side > 0.9 * len(spans)


LEVERS = (
    *("training.branching_bias=0.5", "training.branching_bias_steps=5"),
    *("training.branching_bias_words=3", "training.pair_bias=0.25"),
)


@pytest.fixture(scope="module")
def biased(make_config, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("biased") / "run")
    train(make_config(*LEVERS), folder.path)
    return folder


@pytest.mark.parametrize("step", [2, 7])
def test_resumed_equals_undisturbed(
    make_config, biased: RunFolder, whole: RunFolder, tmp_path: Path, step: int
) -> None:
    """Before and after the last step with a bias; `whole` is a run without bias."""
    broken = RunFolder(tmp_path / "broken")
    with pytest.raises(Interrupted):
        train(make_config(*LEVERS), broken.path, reporter=SignalAt(step, signal.SIGTERM))
    train(None, broken.path, resume=True)
    assert differences(biased, broken) == []
    assert differences(biased, whole) != []
