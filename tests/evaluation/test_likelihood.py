"""One memory budget for everything that is computed in batches."""

from types import SimpleNamespace

import pytest
import torch

from simplepcfg.evaluation.likelihood import BATCH_BYTES, MOST_CELLS, bytes_a_cell, cells_a_batch


@pytest.mark.parametrize("states", [1, 4096, 10**9])
def test_a_batch_fits_the_budget_or_is_one_sentence(states: int) -> None:
    grammar = SimpleNamespace(root=torch.empty(states, device="meta"))
    cells = cells_a_batch(grammar, torch.device("cpu"))
    assert 1 <= cells <= MOST_CELLS
    assert cells == 1 or cells * bytes_a_cell(grammar) <= BATCH_BYTES["cpu"]
