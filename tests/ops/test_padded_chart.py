"""The chart of mixed lengths in the layout of equal ones computes what the packed chart does."""

import pytest
import torch

from random_grammars import random_case, rules_and_sentences
from simplepcfg.ops.arguments import Needs, check_arguments
from simplepcfg.ops.inside import packed_chart
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.inside.padded_chart import PaddedChart

WEIGHTS = torch.tensor([1.0, -0.5], dtype=torch.float64)


@pytest.mark.parametrize(("batched", "lengths"), [(False, [5, 3]), (True, [1, 4])])
def test_padded_chart(monkeypatch: pytest.MonkeyPatch, batched: bool, lengths: list[int]) -> None:
    """It computes what the packed chart does, two widths at once included, whatever lies beyond the end."""
    empty = PackedChart.empty
    monkeypatch.setattr(
        PackedChart, "empty", lambda self, *size, dtype: empty(self, *size, dtype=dtype).fill_(torch.nan)
    )
    monkeypatch.setattr(packed_chart, "LEAST_TILES", 1)
    for name in ("STATES_AT_ONCE", "PAIRED_STATES", "PAIRED_STATES_BACK"):
        monkeypatch.setattr(packed_chart, name, 16)
    monkeypatch.setattr(packed_chart, "PAIRED_FROM", 2)
    emissions, *rules = (t.detach() for t in random_case(2, 5, 18, 4, batched=batched, scale=3.0).tensors())
    given = check_arguments(*rules_and_sentences(emissions, *rules, lengths=torch.tensor(lengths)))
    garbage = emissions.clone()
    for sentence, length in zip(garbage, lengths, strict=True):
        sentence[length:] = torch.nan
    padded = PaddedChart(check_arguments(*rules_and_sentences(garbage, *rules)))
    padded.set_lengths(torch.tensor(lengths))
    found, expected = (
        (
            chart.fill(),
            marginals := emissions.new_zeros(2, 6, 6),
            *chart.backward(WEIGHTS, Needs(True, True, True), marginals),
        )
        for chart in (padded, PackedChart(given))
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
