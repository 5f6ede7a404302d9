"""Batches: each sentence once, the same for the same (seed, epoch), lengths as equal as the corpus allows."""

import random
from collections import Counter
from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplepcfg.data.batching import collate, evaluation_batches, training_batches

corpora = st.lists(st.integers(1, 12), max_size=80)


@settings(deadline=None, max_examples=100)
@given(corpora, st.integers(1, 9), st.integers(-5, 2**40), st.integers(0, 99))
def test_training_batches(lengths: list[int], batch_size: int, seed: int, epoch: int) -> None:
    batches = training_batches(lengths, batch_size, seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert sum(len(batch) != batch_size for batch in batches) <= 1
    assert all(batches)
    assert batches == training_batches(lengths, batch_size, seed, epoch)
    equal = sum(len({lengths[index] for index in batch}) == 1 and len(batch) == batch_size for batch in batches)
    assert equal >= sum(count // batch_size for count in Counter(lengths).values())
    sizes = [sorted(lengths[index] for index in batch) for batch in batches]
    mixed = sorted(batch for batch in sizes if len(set(batch)) > 1)
    assert all(before[-1] <= after[0] for before, after in pairwise(mixed))


def test_order_changes_with_seed_and_epoch() -> None:
    lengths = [random.Random(0).randint(2, 40) for _ in range(500)]
    orders = [training_batches(lengths, 16, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({str(order) for order in orders}) == 4
    members = [{frozenset(batch) for batch in order} for order in orders]
    assert members[0] != members[1]


def test_a_large_corpus_has_almost_no_padding() -> None:
    rng = random.Random(1)
    lengths = [min(40, max(2, int(rng.gauss(21, 9)))) for _ in range(20_000)]
    batches = training_batches(lengths, 16, seed=3, epoch=2)
    padded = sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)
    assert padded / sum(lengths) < 1.01


@settings(deadline=None, max_examples=100)
@given(corpora, st.integers(1, 500), st.integers(1, 9))
def test_evaluation_batches(lengths: list[int], max_cells: int, batch_size: int) -> None:
    batches = evaluation_batches(lengths, max_cells, batch_size)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) ** 2 <= max_cells


def test_collate() -> None:
    batch = collate([[5, 6, 7], [8], [9, 10]], [2, 0])
    assert batch.words.tolist() == [[9, 10, 0], [5, 6, 7]]
    assert batch.lengths.tolist() == [2, 3]
    assert batch.indices == [2, 0]
    assert len(batch) == 2
    assert batch.words.dtype == batch.lengths.dtype == torch.int64
    assert torch.equal(batch.to("cpu").words, batch.words)
    assert collate([], []).words.shape == (0, 0)
