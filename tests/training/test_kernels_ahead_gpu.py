"""On a GPU: kernels that were compiled ahead are those of the first steps, and compiling them changes nothing."""

import pytest
import torch
from triton import knobs

from simplepcfg.models import SimpleNPCFGConfig
from simplepcfg.ops.capture import GraphCapturer, side_stream
from simplepcfg.ops.compile_ahead import compile_kernels
from simplepcfg.ops.inside.layout import make_layout
from simplepcfg.training.step.kernels_ahead import compile_first_kernels
from step_checks import WORDS, largest_difference, make_step, mixed_batches, run_steps, tiny_model, weights

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]
GPU = torch.device("cuda", 0)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were compiled since the test began, by any thread."""
    names: list[str] = []
    monkeypatch.setattr(knobs.runtime, "jit_post_compile_hook", lambda *, fn, **_: names.append(fn.name))
    return names


def test_first_steps_compile_nothing_more(compiled: list[str]) -> None:
    sizes = SimpleNPCFGConfig(nonterminals=48, preterminals=80, embedding=32)  # of no other test
    plain, ahead = (tiny_model("cuda", "bf16", torch.float32, sizes) for _ in range(2))
    with side_stream(GPU):
        step = make_step(ahead, captured_shapes=96)
        batches = mixed_batches(8, shapes=3)
        sentences = [
            row[:size].tolist() for batch in batches for row, size in zip(batch.words, batch.lengths, strict=True)
        ]
        places = iter(range(len(sentences)))
        indices = [[next(places) for _ in range(len(batch))] for batch in batches]
        before = weights(ahead)
        compile_first_kernels(step, ahead, sentences, indices, sentences, "tf32")
        torch.cuda.synchronize()
        assert largest_difference(weights(ahead), before) == 0
        assert {"inside_split_fwd_kernel", "inside_split_bwd_kernel"} <= set(compiled)
        del compiled[:]
        losses = run_steps(step, batches)
        assert compiled == []
        expected = run_steps(make_step(plain, captured_shapes=96), batches)
    assert losses == expected
    assert largest_difference(weights(ahead), weights(plain)) == 0


def test_what_cannot_be_recorded_counts_up_to_there(compiled: list[str]) -> None:
    sizes = SimpleNPCFGConfig(nonterminals=40, preterminals=72, embedding=32)
    model = tiny_model("cuda", "bf16", torch.float32, sizes)
    words = torch.randint(1, WORDS, (4, 6), device=GPU)
    make_layout(6, (6,) * 4, GPU)

    def waits() -> None:
        losses = model.loss(words, None) * torch.nn.functional.dropout(words.float(), 0.5).mean(1)
        losses.sum().item()  # an answer that is never computed cannot be waited for
        raise AssertionError("was not stopped")

    with side_stream(GPU):
        found = compile_kernels([waits], GPU)
        assert found == len(compiled)
        assert found > 3
        del compiled[:]
        assert torch.isfinite(model.loss(words, None)).all()
        assert compiled == []
        torch.nn.functional.dropout(words.float(), 0.5)  # random numbers can still be drawn


def test_a_plan_is_not_made_while_a_graph_is_captured() -> None:
    with side_stream(GPU), pytest.raises(RuntimeError, match="was not made before"):
        GraphCapturer(GPU).capture(lambda: make_layout(9, (9, 8, 7), GPU))
    assert make_layout(9, (9, 8, 7), GPU).rows > 0
