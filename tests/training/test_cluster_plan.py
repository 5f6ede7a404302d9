"""The plan of a mesh: what it prints, and that the page has its predictions. test_distributed.py counts real bytes."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster import predictions
from simplepcfg.cli.main import run
from simplepcfg.errors import InputError
from simplepcfg.models import NPCFGConfig, SimpleNPCFGConfig
from simplepcfg.training.cluster_plan import StepShape, describe_plan, flops, step_time, step_traffic
from simplepcfg.training.memory_estimate import estimate

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
LARGE = SimpleNPCFGConfig(nonterminals=8192, preterminals=16384)


def test_the_page_has_the_predictions() -> None:
    assert "\n".join(predictions()) in PAGE.read_text("utf-8"), "python benchmarks/cluster.py --predict"


def test_a_share_of_a_large_grammar_needs_little_more_than_its_share_of_memory() -> None:
    config = replace(LARGE, nonterminals=32768, preterminals=65536)
    sizes = {
        shards: sum(each.size for each in estimate(config, 10_000, 16, 25, "cuda", "fp32", shards=shards))
        for shards in (1, 2, 8)
    }
    assert 1 < 2 * sizes[2] / sizes[1] < 1.15  # buffers and gathered features are not divided
    assert 1 < 8 * sizes[8] / sizes[1] < 1.4


def test_one_process_sends_nothing_and_the_time_is_that_of_the_measured_steps() -> None:
    for states, milliseconds in ((4096, 4.06), (8192, 12.0)):
        config = SimpleNPCFGConfig(nonterminals=states, preterminals=2 * states)
        time = step_time(StepShape(config, 10_000, 16, 21, (1, 1)))
        assert time.wait == 0
        assert 1e3 * time.total == pytest.approx(milliseconds, rel=0.05)


def test_work_is_divided_and_traffic_grows_with_states() -> None:
    shapes = [StepShape(LARGE, 10_000, 16, 25, mesh) for mesh in ((1, 1), (1, 8), (8, 1))]
    assert flops(shapes[0]) == pytest.approx(8 * flops(shapes[1]))
    assert flops(shapes[2]) > flops(shapes[0]) / 8  # rules are computed by each
    beta = 2 * 16 * sum(25 - width + 1 for width in range(2, 25)) * 8192
    traffic = step_traffic(shapes[1])
    assert traffic.gathered == traffic.scattered + beta + 8 * 8 * 16  # beta twice, and log Z of each process


def test_train_plan_prints_four_lines_or_refuses(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    plan = ["train", "sn-pcfg", "--train", str(text_file), "--set", "training.mesh=[2,4]", "--plan", "--set"]
    assert run([*plan, "training.batch_size=64"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("layout: data 2 × grammar 4; each process has 32 of 64 sentences, 1,024 of 4,096 nonter")
    assert [line.partition(":")[0] for line in lines[1:]] == ["memory of a process", "over the wire", "time of a step"]
    assert run([*plan, "training.embedding_dropout=0.1"]) == 2
    assert "training.embedding_dropout = 0.1 needs the whole grammar in each process" in capsys.readouterr().err


def test_plan_of_a_tiny_model_has_no_zeros() -> None:
    tiny = SimpleNPCFGConfig(nonterminals=4, preterminals=8, embedding=8)
    alone, two = (describe_plan(tiny, 100, 16, 12, mesh) for mesh in ((1, 1), (2, 1)))
    assert alone[2] == "over the wire: nothing, since one process trains alone"
    assert two[2].startswith("over the wire: less than 0.1 MB")
    assert not any(" 0.0" in line for line in [*alone, *two])
    assert "which a smaller model or batch would take, too" in alone[3]


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InputError, match="a model of kind n-pcfg cannot be planned"):
        describe_plan(NPCFGConfig(), 100, 16, 20, (1, 2))
    with pytest.raises(InputError, match="8192 cannot be divided over 3"):
        describe_plan(LARGE, 100, 16, 20, (1, 3))
