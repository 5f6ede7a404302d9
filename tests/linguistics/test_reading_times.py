"""Regressions of reading times: against direct computation, on made-up times, and which words are used."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from simplepcfg.errors import InputError
from simplepcfg.linguistics.item_tables import ItemTable, read_item_table
from simplepcfg.linguistics.reading_times import (
    design_matrix,
    evaluate_reading_times,
    gain,
    held_out_log_likelihood,
    least_squares,
    sentence_folds,
)
from simplepcfg.linguistics.word_predictors import (
    log_frequencies,
    token_counts,
    word_lengths,
)
from toy_word_models import UnigramModel

LETTERS = "abcdefghijklmnopqrst"
# Five letters each, so that length says nothing, and a surprisal in nats that frequency does not tell.
WORDS = {letter * 5: 0.5 + (7 * place % 20) / 2 for place, letter in enumerate(LETTERS)}


def made_up_table(folder: Path, slope: float, sentences: int = 60, seed: int = 3) -> ItemTable:
    """Log times that grow with the surprisal of a word by `slope` a bit, and noise of 0.1."""
    generator = np.random.default_rng(seed)
    lines = ["item\tsentence\tzone\tword\tmean_rt\tother_rt"]
    zone = 0
    for sentence in range(sentences):
        for word in generator.choice(list(WORDS), size=9).tolist():
            zone += 1
            time = math.exp(5.5 + slope * WORDS[word] / math.log(2) + 0.1 * generator.standard_normal())
            lines.append(f"1\t{sentence}\t{zone}\t{word}\t{time:.4f}\t{300 + generator.standard_normal():.3f}")
    path = folder / "times.tsv"
    path.write_text("\n".join(lines) + "\n")
    return read_item_table(path)


def test_least_squares_solves_the_normal_equations() -> None:
    generator = np.random.default_rng(0)
    design = design_matrix(list(generator.standard_normal((3, 50))))
    outcome = generator.standard_normal(50)
    coefficients, variance = least_squares(design, outcome)
    assert coefficients == pytest.approx(np.linalg.inv(design.T @ design) @ design.T @ outcome)
    assert variance == pytest.approx(((outcome - design @ coefficients) ** 2).sum() / 50)


def test_held_out_log_likelihood_word_by_word() -> None:
    generator = np.random.default_rng(1)
    design, outcome = design_matrix([generator.standard_normal(30)]), generator.standard_normal(30)
    folds = sentence_folds(np.repeat(np.arange(10), 3), 4, seed=2)
    found = held_out_log_likelihood(design, outcome, folds)
    for row in range(30):
        others = folds != folds[row]
        coefficients, variance = least_squares(design[others], outcome[others])
        residual = float(outcome[row] - design[row] @ coefficients)
        density = math.exp(-(residual**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        assert found[row] == pytest.approx(math.log(density))


def test_folds_keep_sentences_together() -> None:
    sentences = np.array([5, 5, 2, 7, 7, 7, 2, 9, 11])
    folds = sentence_folds(sentences, 2, seed=0)
    for sentence in np.unique(sentences):
        assert len(set(folds[sentences == sentence].tolist())) == 1
    assert set(folds.tolist()) == {0, 1}
    assert (sentence_folds(sentences, 2, seed=0) == folds).all()
    for count in (1, 6):
        with pytest.raises(InputError, match="folds"):
            sentence_folds(sentences, count, seed=0)


def test_the_interval_is_over_sentences() -> None:
    sentences = np.repeat(np.arange(40), 5)
    constant = gain(np.full(200, 0.25), sentences, 100, seed=0)
    assert (constant.mean, constant.low, constant.high) == (0.25, 0.25, 0.25)
    same = np.repeat(np.random.default_rng(4).standard_normal(40), 5)  # all words of a sentence agree
    found = gain(same, sentences, 2000, seed=0)
    assert found.mean == pytest.approx(same.mean())
    error = same.std() / math.sqrt(40)
    assert found.low == pytest.approx(same.mean() - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(same.mean() + 1.96 * error, abs=0.15 * error)


def test_an_effect_that_is_there(tmp_path: Path) -> None:
    table = made_up_table(tmp_path, slope=0.02)
    (found,), used = evaluate_reading_times([UnigramModel(WORDS)], table, Counter())
    assert found.low > 0
    assert found.slope == pytest.approx(0.02, abs=0.004)
    assert found.slope_prev1 == pytest.approx(0, abs=0.004)
    assert (found.words, found.sentences) == (60 * 6, 60)
    assert used.left_out == {"at the beginning or end of a sentence": 60 * 3}


def test_an_effect_that_is_not_there(tmp_path: Path) -> None:
    table = made_up_table(tmp_path, slope=0.02)
    (found,), _ = evaluate_reading_times([UnigramModel(WORDS)], table, Counter(), time="other_rt")
    assert found.low < 0
    assert found.gain < 0.005


def test_models_side_by_side_have_the_same_words(tmp_path: Path) -> None:
    table = made_up_table(tmp_path, slope=0.02)
    fewer = UnigramModel({word: value for word, value in WORDS.items() if word != "aaaaa"}, name="fewer")
    alone, _ = evaluate_reading_times([UnigramModel(WORDS)], table, Counter())
    both, used = evaluate_reading_times([UnigramModel(WORDS), fewer], table, Counter())
    assert [row.model for row in both] == ["toy", "fewer"]
    assert both[0].words == both[1].words < alone[0].words
    assert used.left_out["unknown to a model, or after such a word"] == alone[0].words - both[0].words
    assert both[1].words_with_unknown == alone[0].words == alone[0].words_with_unknown
    assert both[0].gain_with_unknown == alone[0].gain == alone[0].gain_with_unknown != both[0].gain


def test_repeated_runs_are_equal(tmp_path: Path) -> None:
    table = made_up_table(tmp_path, slope=0.01, sentences=20)
    first, _ = evaluate_reading_times([UnigramModel(WORDS)], table, Counter(), seed=7)
    second, _ = evaluate_reading_times([UnigramModel(WORDS)], table, Counter(), seed=7)
    other, _ = evaluate_reading_times([UnigramModel(WORDS)], table, Counter(), seed=8)
    assert first == second != other


def test_lengths_and_frequencies() -> None:
    assert word_lengths(["don't", "“Yes!”", "—"]).tolist() == [4, 3, 0]
    counts = token_counts(["The dog can't.", "the cat ca n't ."])
    assert counts == {"the": 2, "dog": 1, "ca": 2, "n't": 2, "cat": 1}
    found = log_frequencies(["The", "can't", "dog.", "zebra", "—"], counts)
    assert found.tolist() == pytest.approx([math.log2(n / 9) for n in (3, 3, 2, 1, 1)])


def test_frequencies_in_paragraphs() -> None:
    counts = token_counts(["Mr. Fox saw the dog. The dog barked. Did Mr. Fox run?", "so did the dog ."])
    assert counts["dog"] == 3
    assert "dog." not in counts
    found = log_frequencies(["dog.", "Mr.", "Fox", "dog,"], counts)
    assert found.tolist() == pytest.approx([math.log2((n + 1) / (sum(counts.values()) + 1)) for n in (3, 2, 2, 3)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item\tword\tmean_rt\n1\ta\tfast\n", "words.tsv:2: mean_rt is 'fast'"),
        ("item\tword\n1\ta\n", "no column mean_rt"),
        ("item\tword\tmean_rt\n1\ta\t1\n1\tb\t2\n", "no word is left"),
        ("item\tword\tmean_rt\n" + "1\taaaaa\t300\n" * 9, "folds"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "words.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        evaluate_reading_times([UnigramModel(WORDS)], read_item_table(path), Counter())
