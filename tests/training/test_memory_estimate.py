"""Training that cannot fit is refused before anything is allocated or written."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from counted_words import vocabulary_of
from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.errors import ResourceError
from simplepcfg.models import KINDS, SimpleNPCFGConfig, build_model
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.device import ALLOCATOR_SETTINGS, use_expandable_segments
from simplepcfg.training import PlainReporter, memory_estimate, train
from simplepcfg.training.memory_estimate import estimate


def test_estimate_counts_what_it_says() -> None:
    config = SimpleNPCFGConfig(nonterminals=3, preterminals=5, embedding=4, networks="paper")
    weights = sum(parameter.numel() for parameter in build_model(config, 11).parameters())
    sizes = {part.what: part.size for part in estimate(config, 11, batch=2, longest=6)}
    networks = (2 * (3 * 3 + 2 * 5) + 5 * (1 + 3 * 2)) * 4
    assert sizes == {
        "weights": 4 * 4 * weights,
        "networks": 4 * networks,
        "rules": 4 * 4 * 2 * 3 * 8,
        "emissions": 4 * 3 * 5 * 11,
        "chart": 4 * 4 * 3 * 2 * 7**2,
    }
    averaged = estimate(config, 11, batch=2, longest=6, averaged=True)
    assert averaged[0].size == 5 * 4 * weights
    for precision, item in (("bf16", 2), ("fp32", 4)):
        sizes = {part.what: part.size for part in estimate(config, 11, 2, 6, "cuda", precision)}
        assert sizes == {
            "weights": 5 * 4 * weights + (2 * weights if item == 2 else 0),
            "networks": item * networks,
            "rules": item * (2 if item == 2 else 3) * 2 * 3 * 8 + 352 * 2**20,
            "emissions": 4 * 3 * 2 * 6 * 5 + item * 5 * 11,
            "chart": item * 6 * 3 * 2 * 21,
        }


def test_a_large_vocabulary_is_not_held_under_every_preterminal() -> None:
    """On a CPU as on a GPU they are computed in parts: see KEPT_BYTES of the emissions."""
    config = SimpleNPCFGConfig(nonterminals=4096, preterminals=4096, embedding=512)
    for device in ("cpu", "cuda"):
        sizes = [
            {part.what: part.size for part in estimate(config, words, 16, 40, device)} for words in (50_000, 500_000)
        ]
        assert sizes[0]["emissions"] == sizes[1]["emissions"] < 2**30
        assert sizes[1]["weights"] > 5 * sizes[0]["weights"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_has_an_estimate(kind: str) -> None:
    """Each part is there, grows with what it is said to grow with, and names keys that the model has."""
    keys = {f"model.{each.name}" for each in fields(KINDS[kind])}
    parts = estimate(KINDS[kind](), 101, 2, 6, "cuda", "bf16")
    assert {name for part in parts for name in re.findall(r"model\.\w+", part.keys)} <= keys
    small, large, long = (
        {part.what: part.size for part in estimate(KINDS[kind](), words, batch, longest, device, "bf16")}
        for words, batch, longest, device in ((101, 2, 6, "cuda"), (1001, 8, 6, "cuda"), (101, 2, 60, "cuda"))
    )
    assert min(small.values()) > 0
    assert large["weights"] > small["weights"]
    assert large["emissions"] > small["emissions"]
    assert min(large["chart"], long["chart"]) > small["chart"]


def test_estimate_draws_nothing() -> None:
    before = torch.get_rng_state()
    estimate(SimpleNPCFGConfig(init_logit_std=1.0), 11, batch=2, longest=6)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("model.nonterminals=10000000", "for the rules, .*; lower model.nonterminals"),
        ("model.embedding=10000000", "for the weights, .*; lower model.embedding"),
    ],
)
def test_too_large_a_model_is_refused(make_config, tmp_path: Path, setting: str, advice: str, monkeypatch) -> None:
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: 64 * 2**30)
    with pytest.raises(ResourceError, match=rf"training would take about [\d,.]+ GiB, .*{advice}") as caught:
        train(make_config(setting), tmp_path / "run")
    assert caught.value.exit_code == 4
    assert not (tmp_path / "run").exists()


def test_long_batches_are_refused(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: 2**20)
    lines = [" ".join("ab"[k % 2] for k in range(300))] * 4
    with pytest.raises(ResourceError, match=r"for the chart, .*; lower training\.batch_size or data\.max_length"):
        train(make_config("data.max_length=0"), tmp_path / "run", train_text=lines)


def test_unknown_memory_refuses_nothing(make_config, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: None)
    assert train(make_config("training.epochs=1"), tmp_path / "run").epochs == 1


def test_estimate_is_said_before_training(make_config, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: 2**34)
    train(make_config("training.epochs=1"), tmp_path / "run", reporter=PlainReporter())
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("memory: about ")]
    assert re.match(r"memory: about [\d.]+ MiB of 16\.0 GiB free on cpu \(.*weights [\d.]+ MiB.*\)$", line)


def test_validation_needs_room_for_rules_and_charts(make_config, monkeypatch) -> None:
    """Rules in float32 are more than a step of a large grammar holds in bf16; charts come besides, up to a share."""
    config = make_config("model.nonterminals=32768", "model.preterminals=65536", "training.batch_size=16")
    monkeypatch.setattr(memory_estimate, "cells_a_batch", lambda sizes, device: 10**12 // 8 // (16 * 32768))
    for valid, charts in (([[2] * 10], 6 * 32768 * 100), ([[2] * 40] * 3000, None)):
        corpus = Corpus(EncodedText.of([[2] * 20] * 16), EncodedText.of(valid), vocabulary_of([["a"]]))
        parts = estimate(config.model, len(corpus.vocabulary), 16, 20, "cuda", "bf16")
        rules = 4 * 2 * 32768 * (32768 + 65536)
        step = sum(part.size for part in parts) - parts[0].size
        assert rules > step
        share = charts if charts is not None else 10**12 // 8 // (16 * 32768) * 6 * 32768
        monkeypatch.setattr(memory_estimate, "available_memory", lambda device: 10**12)
        needs = memory_estimate.require_memory(config, corpus, torch.device("cuda"))
        assert needs.size == pytest.approx(parts[0].size + rules + share + step)
        assert f"; validation {(rules + share) / 2**30:.1f} GiB" in needs.note
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: parts[0].size + rules)
    with pytest.raises(
        ResourceError, match=r"24\.0 GiB for validation's rules in float32, .*; lower model\.nonterminals"
    ):
        memory_estimate.require_memory(config, corpus, torch.device("cuda"))


def test_steps_are_captured_only_if_both_ways_fit(make_config, monkeypatch) -> None:
    monkeypatch.setattr(memory_estimate, "cells_a_batch", lambda sizes, device: 2**20)
    config = make_config("model.nonterminals=4096", "model.preterminals=8192")
    corpus = Corpus(EncodedText.of([[2] * 20] * 16), EncodedText.of([[2, 2]]), vocabulary_of([["a"]]))
    needs = []
    for free in (10**12, None):
        monkeypatch.setattr(memory_estimate, "available_memory", lambda device, free=free: free)
        needs.append(memory_estimate.require_memory(config, corpus, torch.device("cuda")))
        assert needs[-1].capture
        assert "twice" in needs[-1].note
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: needs[0].size - 1)
    tight = memory_estimate.require_memory(config, corpus, torch.device("cuda"))
    assert not tight.capture
    assert tight.size < needs[0].size
    assert "launched one by one" in tight.note
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: tight.size - 1)
    with pytest.raises(ResourceError, match=r"free on cuda; lower model\.nonterminals"):
        memory_estimate.require_memory(config, corpus, torch.device("cuda"))


def test_processes_share_a_batch_and_a_machine(make_config, monkeypatch) -> None:
    corpus = Corpus(EncodedText.of([[2] * 20] * 16), EncodedText.of([[2, 2]]), vocabulary_of([["a"]]))
    monkeypatch.setattr(memory_estimate, "available_memory", lambda device: 2**33)
    alone = memory_estimate.require_memory(make_config(), corpus, torch.device("cpu"))
    two = memory_estimate.require_memory(make_config(), corpus, torch.device("cpu"), (2, 1), here=2)
    assert two.size < alone.size
    assert "of 4.0 GiB free" in two.note


def test_the_allocator_is_left_to_a_user_who_has_set_it_up(monkeypatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", asked.append, raising=False)
    for name in ALLOCATOR_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for wanted in (True, False):  # one run after the other in a process
        use_expandable_segments(wanted)
    assert asked == ["expandable_segments:True", "expandable_segments:False"]
    monkeypatch.setenv(ALLOCATOR_SETTINGS[0], "max_split_size_mb:512")
    use_expandable_segments(True)
    assert len(asked) == 2
