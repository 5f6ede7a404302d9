"""On a GPU: captures of CUDA graphs that fail. Needs torch and pytest alone."""

import pytest
import torch

from simplepcfg.ops.cuda_graphs.capture import GraphCapturer, side_stream
from simplepcfg.ops.inside.layout import make_layout

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

GPU = torch.device("cuda", 0)


def test_random_numbers_go_on_after_a_failed_capture() -> None:
    values = torch.ones(64, device=GPU)

    def draws_and_waits() -> None:
        torch.nn.functional.dropout(values, 0.5).sum().item()  # what has not run cannot be waited for

    torch.cuda.manual_seed(5)
    expected = torch.rand(8, device=GPU)
    torch.cuda.manual_seed(5)
    with side_stream(GPU):
        with pytest.raises(RuntimeError):
            GraphCapturer(GPU).capture(draws_and_waits)
        torch.testing.assert_close(torch.rand(8, device=GPU), expected, rtol=0, atol=0)
        result = torch.empty(64, device=GPU)
        replay = GraphCapturer(GPU).capture(lambda: result.copy_(torch.nn.functional.dropout(values, 0.5)))
        replay()
        first = result.clone()
        replay()
        assert not torch.equal(first, result)


def test_a_layout_is_not_made_while_a_graph_is_captured() -> None:
    with side_stream(GPU), pytest.raises(RuntimeError, match="was not made before"):
        GraphCapturer(GPU).capture(lambda: make_layout(9, (9, 8, 7), GPU))
    assert make_layout(9, (9, 8, 7), GPU).rows > 0
