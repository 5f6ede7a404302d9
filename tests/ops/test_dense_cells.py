"""The layout of the dense chart: every view holds the spans that it says, of every sentence."""

import pytest
import torch

from simplepcfg.ops.dense.cells import Cells


def filled(batch: int, n: int) -> Cells:
    """Each cell says which span it is, and of which sentence: (b, i, j)."""
    cells = Cells(torch.full((n + 1, batch, n + 1, 3), -1))
    for b in range(batch):
        for i in range(n):
            for j in range(i + 1, n + 1):
                for place in (cells.values[i, b, n + 1 - (j - i)], cells.values[j, b, j - i]):
                    assert (place == -1).all()  # no two spans share a cell
                    place[:] = torch.tensor([b, i, j])
    return cells


@pytest.mark.parametrize(("batch", "n"), [(1, 2), (3, 5), (2, 7)])
def test_views(batch: int, n: int) -> None:
    cells = filled(batch, n)
    for width in range(1, n + 1):
        spans = [(b, i, i + width) for i in range(n - width + 1) for b in range(batch)]
        assert cells.rows(width) == len(spans)
        assert cells.left(width).tolist() == [list(span) for span in spans]
        assert cells.sides(width, width).tolist() == [[list(span) for span in spans]] * 2
        if width == 1:
            continue
        left, right = cells.sides(width, width - 1).tolist()
        assert left == [[b, i, j - 1] for b, i, j in spans]
        assert right == [[b, i + 1, j] for b, i, j in spans]
        left, right = (view.tolist() for view in cells.splits(width))
        assert left == [[[b, i, k] for k in range(j - 1, i, -1)] for b, i, j in spans]
        assert right == [[[b, k, j] for k in range(j - 1, i, -1)] for b, i, j in spans]


def test_wide_splits_of_some_rows() -> None:
    cells = filled(2, 7)
    for whole, some in zip(cells.splits(5), cells.splits(5, range(2, 6), wide=True), strict=True):
        assert torch.equal(some, whole[2:6, 1:-1])


def test_one_number_a_span() -> None:
    cells = filled(2, 4)
    starts = Cells(cells.values[..., 1].contiguous())
    assert torch.equal(starts.left(3), cells.left(3)[..., 1])
    assert torch.equal(starts.splits(3)[1], cells.splits(3)[1][..., 1])
