"""The Triton backend's own paths: two widths at once, several blocks of states, too little memory."""

import pytest
import torch

from random_grammars import random_case
from simplepcfg.errors import ResourceError
from simplepcfg.ops.inside import inside, packed_chart, span_marginals
from simplepcfg.ops.inside.layout import make_layout


@pytest.mark.parametrize("lengths", [[5, 5], [3, 5]])
@pytest.mark.parametrize("paired", [True, False])
def test_more_states_than_a_block(monkeypatch: pytest.MonkeyPatch, paired: bool, lengths: list[int]) -> None:
    calls: list[str] = []

    class Counted:
        """The kernel, and a note that it ran."""

        def __init__(self, name: str) -> None:
            self.name, self.kernel = name, getattr(packed_chart.pair_kernels, name)

        def __getitem__(self, grid: tuple[int, ...]) -> object:
            calls.append(self.name)
            return self.kernel[grid]

    for name in ("inside_pair_fwd_kernel", "inside_pair_bwd_kernel"):
        monkeypatch.setattr(packed_chart.pair_kernels, name, Counted(name))
    monkeypatch.setattr(packed_chart, "LEAST_TILES", 1 if paired else 10**9)
    monkeypatch.setattr(packed_chart, "STATES_AT_ONCE", 16)
    monkeypatch.setattr(packed_chart, "PAIRED_STATES", 16)
    monkeypatch.setattr(packed_chart, "PAIRED_STATES_BACK", 16)
    monkeypatch.setattr(packed_chart, "PAIRED_FROM", 2)
    case = random_case(2, 5, 18, 4, scale=3.0)
    weights = torch.tensor([1.0, -0.5], dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((log_z * weights).sum(), case.tensors(), retain_graph=True)
        for log_z in (
            inside(*case.tensors(), lengths=torch.tensor(lengths), backend=name) for name in ("triton", "torch")
        )
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 1e-11
    assert set(calls) == ({"inside_pair_fwd_kernel", "inside_pair_bwd_kernel"} if paired else set())
    _, marginals = span_marginals(*case.tensors(), lengths=torch.tensor(lengths), backend="triton")
    assert marginals.sum((1, 2)).tolist() == pytest.approx([length - 1 for length in lengths])


def test_rows_of_the_plan() -> None:
    """The row of every span is where the formula says, and whole sentences are the last rows of their width."""
    lengths = (4, 6, 2, 6)
    layout = make_layout(6, lengths, torch.device("cpu"))
    assert layout.sentences == (1, 3, 0, 2)
    words = layout.words_before.tolist()
    seen = []
    for width in range(1, 7):
        for b, length in enumerate(layout.lengths):
            for i in range(length - width + 1):
                row = layout.first[width] + words[b] - b * (width - 1) + i
                assert layout.sentence_of_row[row] == b
                assert (row < layout.first[width] + layout.inner[width]) == (width < length)
                seen.append(row)
    assert seen == list(range(layout.rows))


def test_too_little_memory_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(packed_chart.PackedChart, "empty", refuse)
    with pytest.raises(ResourceError, match=r"needs 0\.0 GB.*reduce the batch, the length") as caught:
        inside(*random_case(2, 4, 3, 5).tensors(), backend="triton")
    assert "\n" not in str(caught.value)
