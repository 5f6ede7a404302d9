"""Sharded charts in threads that take turns, for the interpreter; training/test_distributed.py has processes."""

import threading
from collections.abc import Callable

import pytest
import torch

import sharded_models
from simplepcfg.errors import InputError
from simplepcfg.grammars.emissions import NO_EMISSIONS
from simplepcfg.grammars.sharded import ShardedGrammar
from simplepcfg.models import NPCFG, NPCFGConfig
from simplepcfg.models.sharding import shard_model
from simplepcfg.ops import shards as shards_module
from simplepcfg.ops.inside import packed_chart
from simplepcfg.ops.inside.packed_chart import PackedChart
from simplepcfg.ops.shards import Shards


class Exchange:
    """A process group of threads, of which one runs at a time, until all wait for a collective."""

    def __init__(self, size: int) -> None:
        self.size, self.turn = size, threading.Condition()
        self.given: list[dict[int, torch.Tensor]] = []
        self.rounds = [0] * size
        self.rank = threading.local()

    def exchange(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return what all threads give in the same round."""
        rank, number = self.rank.value, self.rounds[self.rank.value]
        self.rounds[rank] += 1
        if len(self.given) <= number:
            self.given.append({})
        self.given[number][rank] = tensor.clone()
        self.turn.notify_all()
        assert self.turn.wait_for(lambda: len(self.given[number]) == self.size, timeout=60)
        return [self.given[number][each] for each in range(self.size)]

    def run(self, task: Callable[[Shards], object]) -> list[object]:
        """Return the results of a task in every thread."""
        results: list[object] = [None] * self.size

        def one(rank: int) -> None:
            self.rank.value = rank
            with self.turn:
                results[rank] = task(Shards(self, rank, self.size))

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Exchange]:
    def all_gather(out: torch.Tensor, own: torch.Tensor, group: Exchange) -> None:
        out.copy_(torch.cat(group.exchange(own)))

    def reduce_scatter(out: torch.Tensor, partial: torch.Tensor, group: Exchange) -> None:
        out.copy_(sum(group.exchange(partial)).chunk(group.size)[group.rank.value])

    def all_reduce(values: torch.Tensor, op=torch.distributed.ReduceOp.SUM, *, group: Exchange) -> None:
        every = torch.stack(group.exchange(values))
        values.copy_(every.amax(0) if op == torch.distributed.ReduceOp.MAX else every.sum(0))

    monkeypatch.setattr(shards_module, "_all_gather", all_gather)
    monkeypatch.setattr(shards_module, "_reduce_scatter", reduce_scatter)
    monkeypatch.setattr(shards_module.dist, "all_reduce", all_reduce)
    return Exchange


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("name", ["peaked", "sc-pcfg"])
def test_kernels_of_shards_give_the_same(threads: Callable[[int], Exchange], backend: str, name: str) -> None:
    def task(shards: Shards) -> tuple[float, float, float]:
        lengths = [4, 2, 3] if name == "peaked" else [3, 3]
        return sharded_models.differences(name, shards, torch.float64, lengths, backend=backend)

    for result in threads(2).run(task):
        assert max(result) < 1e-10, result


@pytest.mark.parametrize("name", ["peaked", "sc-pcfg"])
def test_two_widths_at_once_of_shards_give_the_same(
    threads: Callable[[int], Exchange], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for limit in ("STATES_AT_ONCE", "PAIRED_STATES", "PAIRED_STATES_BACK", "LEAST_TILES"):
        monkeypatch.setattr(packed_chart, limit, 1)
    monkeypatch.setattr(packed_chart, "PAIRED_FROM", 2)
    answers: list[bool] = []

    def asked(chart: PackedChart, width: int, spans: int) -> bool:
        answers.append(uses_pair_kernel(chart, width, spans))
        return answers[-1]

    uses_pair_kernel = PackedChart._uses_pair_kernel
    monkeypatch.setattr(PackedChart, "_uses_pair_kernel", asked)
    test_kernels_of_shards_give_the_same(threads, "triton", name)
    assert any(answers)


def test_rule_gradients_are_gathered_in_parts(threads: Callable[[int], Exchange], monkeypatch) -> None:
    monkeypatch.setattr("simplepcfg.ops.sharded_inside.packed.GATHERED_BYTES", 200)

    def task(shards: Shards) -> tuple[float, float, float]:
        return sharded_models.differences("sn-pcfg", shards, torch.float64, [4, 3], backend="triton")

    for result in threads(2).run(task):
        assert max(result) < 1e-10, result


def test_other_questions_are_refused_by_name() -> None:
    questions = {
        "most probable trees": lambda g, words: g.viterbi(words),
        "random sentences": lambda g, words: g.sample(1, max_length=3, generator=torch.Generator()),
        "prefix probabilities": lambda g, words: g.prefix_log_probabilities(words),
    }
    rules = torch.ones(4, 20) / 20
    sharded = ShardedGrammar(torch.ones(4) / 8, rules, rules, NO_EMISSIONS, Shards(None, 0, 2))
    emissions = torch.zeros(1, 3, 12) - 1
    for name, ask in questions.items():
        with pytest.raises(InputError, match=f"a sharded grammar has no {name}; save the model and ask it in one"):
            ask(sharded, emissions)


def test_models_that_cannot_be_sharded_are_refused() -> None:
    small = NPCFG(NPCFGConfig(nonterminals=4, preterminals=4, embedding=4), 5)
    with pytest.raises(InputError, match="a model of kind n-pcfg cannot be sharded"):
        shard_model(small, Shards(None, 0, 2))
    kind, config = sharded_models.MODELS["sn-pcfg"]
    with pytest.raises(InputError, match=r"model.nonterminals = 8 cannot be divided over 3 processes"):
        shard_model(kind(config, 5), Shards(None, 0, 3))
