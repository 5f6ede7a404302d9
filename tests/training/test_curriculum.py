"""Short sentences first: every sentence is counted, none twice, and a resumed run goes on as an undisturbed one."""

import json
import signal
from pathlib import Path

import pytest

from simplepcfg.data.batching import training_batches
from simplepcfg.errors import InputError
from simplepcfg.runs.config.schema import TrainingConfig
from simplepcfg.runs.run_folder import RunFolder
from simplepcfg.training import Interrupted, train
from simplepcfg.training.schedule import Curriculum
from toy_runs import SignalAt, differences

LENGTHS = [2, 9, 3, 5, 4, 2, 7, 9, 3, 6]


def curriculum(start: int, growth: int = 2, **settings: int) -> Curriculum:
    config = TrainingConfig(batch_size=3, curriculum_start=start, curriculum_growth=growth, **settings)  # type: ignore[arg-type]
    return Curriculum(LENGTHS, config, seed=7)


def test_every_sentence_that_is_short_enough_comes_once() -> None:
    course = curriculum(3)
    for epoch in range(6):
        found = sorted(index for batch in course.batches(epoch) for index in batch)
        assert found == [index for index, length in enumerate(LENGTHS) if length <= 3 + 2 * epoch]
        assert course.tokens(epoch) == sum(LENGTHS[index] for index in found)
        assert course.batches(epoch) == curriculum(3).batches(epoch)


def test_without_a_start_nothing_changes() -> None:
    for course in (curriculum(0), curriculum(9), curriculum(100)):
        assert course.batches(4) == training_batches(LENGTHS, 3, 7, 4)
        assert course.note is None


@pytest.mark.parametrize(("start", "growth", "complete"), [(3, 2, 3), (3, 6, 1), (8, 1, 1), (3, 0, None)])
def test_when_all_take_part(start: int, growth: int, complete: int | None) -> None:
    course = curriculum(start, growth, epochs=30)
    assert ("never take part" in str(course.note)) == (complete is None)
    if complete is not None:
        assert course.tokens(complete - 1) < course.tokens(complete) == sum(LENGTHS)


@pytest.mark.parametrize("start", [0, 2, 3, 9])
@pytest.mark.parametrize("growth", [0, 1, 3])
@pytest.mark.parametrize("epochs", [1, 4, 12])
def test_what_is_left_to_do(start: int, growth: int, epochs: int) -> None:
    course = curriculum(start, growth, epochs=epochs)
    for epoch in range(epochs):
        assert course.tokens_after(epoch) == sum(course.tokens(later) for later in range(epoch + 1, epochs))


def test_a_user_is_told() -> None:
    assert curriculum(3).note == (
        "curriculum: sentences of up to 3 words in the first epoch, 2 more each epoch, all from epoch 4"
    )
    assert "3 longer sentences never take part" in str(curriculum(3, 1, epochs=4).note)
    assert "up to 2 in the last; 8 longer sentences never take part" in str(curriculum(2, 0).note)


def test_a_start_below_every_sentence_is_refused() -> None:
    with pytest.raises(InputError, match=r"curriculum_start = 1, but the shortest training sentence has 2 words"):
        curriculum(1)


def test_training_counts_the_sentences_of_each_epoch_and_resumes(make_config, tmp_path: Path) -> None:
    config = make_config("training.curriculum_start=4", "training.curriculum_growth=3")
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    train(config, whole.path)
    records = [json.loads(line) for line in whole.metrics.read_text("utf-8").splitlines()]
    steps = [record["step"] for record in records if "valid_tokens" in record]
    assert steps[0] < steps[1] - steps[0]  # more batches when longer sentences have come
    with pytest.raises(Interrupted):
        train(config, broken.path, reporter=SignalAt(steps[0] + 1, signal.SIGINT))
    train(None, broken.path, resume=True)
    assert differences(whole, broken) == []
