"""`simplepcfg sample`, and `simplepcfg parse --decode viterbi`: what is printed, repeated, refused."""

import json
import math
from pathlib import Path

import pytest
import torch
from nltk.tree import Tree

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.brackets import parse_tree
from simplepcfg.inference import derivations
from tiny_runs import tiny_sentences

SENTENCES = "The dog , sees a cat .\n\ndog\n. ,\nthe man sleeps\n"


def test_sentences_one_a_line(call: Call, tiny_run: Path) -> None:
    result = call("sample", tiny_run, "--count", 12, "--max-length", 9)
    assert result.code == 0
    assert len(result.lines) == 12
    assert all(2 <= len(line.split()) <= 9 for line in result.lines)
    known = set(load(tiny_run).vocabulary.words) - {"<pad>"}
    assert {word for line in result.lines for word in line.split()} <= known
    assert "sentences of at most 9 words have" in result.err
    assert result.out == call("sample", tiny_run, "--count", 12, "--max-length", 9, "-q").out
    assert result.out != call("sample", tiny_run, "--count", 12, "--max-length", 9, "--seed", 1).out


def test_trees_and_json(call: Call, tiny_run: Path) -> None:
    plain = call("sample", tiny_run, "--temperature", 0.5, "-q")
    trees = call("sample", tiny_run, "--temperature", 0.5, "-q", "--trees")
    assert [" ".join(Tree.fromstring(line).leaves()) for line in trees.lines] == plain.lines
    assert trees.lines[0].startswith("(NT-")
    found = json.loads(call("sample", tiny_run, "--temperature", 0.5, "--json", "-").out)
    assert [item["tree"] for item in found["sentences"]] == trees.lines
    assert 0 < found["probability_of_length"] <= 1
    scores = load(tiny_run).score([item["words"] for item in found["sentences"]])
    for item, score in zip(found["sentences"], scores, strict=True):
        assert item["log_probability_nats"] <= score + 1e-3  # one tree of all


@pytest.mark.parametrize("options", [[], ["--trees"]])
def test_eos_ends_a_sentence_and_is_not_shown(call: Call, eos_run: Path, options: list[str]) -> None:
    """A grammar hardly trained says it anywhere: what comes before the first one is the sentence."""
    result = call("sample", eos_run, "--count", 2000, "--max-length", 12, *options)
    assert result.code == 0
    assert "<eos>" not in result.out
    lines = result.out.split("\n")[:-1]
    assert len(lines) == 2000
    run = load(eos_run)
    drawn = run.grammar.sample(2000, max_length=12, generator=torch.Generator().manual_seed(0))
    (end,) = run.vocabulary.encode(["<eos>"])
    cut = 0
    for line, item, ids, n in zip(
        lines, run.sample(2000, max_length=12).trees, drawn.words.tolist(), drawn.lengths, strict=True
    ):
        kept = ids[: ids.index(end)] if end in ids else ids[:n]
        cut += len(kept) < int(n)
        assert list(item.tree.words) == run.vocabulary.decode(kept)
        words = Tree.fromstring(line).leaves() if options and line else line.split()
        assert words == list(item.tree.words)
        if options and line:
            assert parse_tree(line) == item.tree
    assert cut > 10  # the test saw what it is about
    scores = drawn.trees.log_probability.tolist()
    assert [item.log_probability for item in run.sample(2000, max_length=12).trees] == scores


def test_sentences_are_printed_as_they_are_drawn(
    call: Call, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block at a time, of which an interruption loses none; all together they are what Python gives."""
    monkeypatch.setattr("simplepcfg.inference.derivations.SENTENCES_AT_ONCE", 5)
    whole = call("sample", tiny_run, "--count", 12, "--json", tmp_path / "all.json")
    assert len(whole.lines) == 12
    assert [" ".join(item.tree.words) for item in load(tiny_run).sample(12).trees] == whole.lines
    found = json.loads((tmp_path / "all.json").read_text())
    assert [" ".join(item["words"]) for item in found["sentences"]] == whole.lines
    blocks = list(load(tiny_run).sample_blocks(12))
    assert [len(block.trees) for block in blocks] == [5, 5, 2]
    original, calls = derivations._sample_sentences, []

    def interrupted(*arguments: object) -> derivations.SampledText:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(derivations, "_sample_sentences", interrupted)
    result = call("sample", tiny_run, "--count", 12)
    assert result.code == 130
    assert result.lines == whole.lines[:10]


def test_long_sentences_are_drawn_fewer_at_a_time(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplepcfg.inference.derivations.TOKENS_AT_ONCE", 100)
    assert [len(block.trees) for block in load(tiny_run).sample_blocks(7, max_length=30)] == [3, 3, 1]


def test_a_temperature_below_every_float_is_the_coldest(call: Call, tiny_run: Path) -> None:
    """Only the likeliest choice is left: one sentence, or none, of which one line says so."""
    result = call("sample", tiny_run, "--temperature", "1e-39", "-q")
    assert (result.code == 0 and len(set(result.lines)) == 1) or (result.code == 2 and result.err.count("\n") == 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--count", "0"], "invalid value for '--count': 0; give 1 or more"),
        (["--max-length", "1"], "max_length = 1"),
        (["--temperature", "0"], "temperature = 0.0"),
        (["--temperature", "nan"], "temperature = nan"),
        (["--seed", "-1"], "seed = -1"),
        (["--json", "/no/such/place.json"], "/no/such/place.json"),
    ],
)
def test_sample_refuses_in_one_line(call: Call, tiny_run: Path, arguments: list[str], said: str) -> None:
    result = call("sample", tiny_run, *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_baselines_have_no_sentences(call: Call) -> None:
    assert call("sample", "random").code == 2


def test_viterbi_trees_have_symbols(call: Call, tiny_run: Path) -> None:
    result = call("parse", tiny_run, "--decode", "viterbi", stdin=SENTENCES)
    assert result.code == 0
    assert result.err == "" or result.err.startswith("not in the vocabulary, hence <unk>: ")
    first, last = Tree.fromstring(result.lines[0]), Tree.fromstring(result.lines[4])
    assert first.leaves() == ["The", "dog", ",", "sees", "a", "cat", "."]
    assert [label for _, label in first.pos() if label == "T"] == ["T", "T"]  # the comma and the full stop
    assert all(node.label().startswith("NT-") for node in last.subtrees() if node.height() > 2)
    assert all(label.startswith("T-") for _, label in last.pos())
    assert result.lines[1:4] == ["", "(X (T dog))", "(X (T .) (T ,))"]
    pretty = call("parse", tiny_run, "--decode", "viterbi", "--format", "pretty", stdin="the man sleeps\n")
    assert pretty.lines[0] == last.label()


def test_the_k_best_trees(call: Call, tiny_run: Path) -> None:
    best = call("parse", tiny_run, "--decode", "viterbi", stdin=SENTENCES).lines
    result = call("parse", tiny_run, "--decode", "viterbi", "--k", 3, stdin=SENTENCES)
    assert result.code == 0
    sentences = [block.splitlines() for block in result.out.split("\n\n")]
    scores = [float(line.split("\t")[0]) for line in sentences[0]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert sentences[0][0].split("\t")[1] == best[0]
    assert "-inf\t(X (T dog))" in result.lines
    as_json = call("parse", tiny_run, "--decode", "viterbi", "--k", 3, "--format", "json", stdin=SENTENCES)
    assert "unit" not in as_json.err
    records = [json.loads(line) for line in as_json.lines]
    assert [len(record["trees"]) for record in records] == [3, 1, 1, 1, 3]
    assert records[2]["trees"][0]["log_probability_nats"] is None
    one = json.loads(call("parse", tiny_run, "--decode", "viterbi", "--format", "json", stdin=SENTENCES).lines[0])
    assert {key: one[key] for key in ("spans", "tree")}.items() <= records[0]["trees"][0].items()
    assert "unit: nats" in result.err
    assert [tree["log_probability_nats"] for tree in records[0]["trees"]] == pytest.approx(scores, abs=1e-6)
    pretty = call("parse", tiny_run, "--decode", "viterbi", "--k", 2, "--format", "pretty", stdin="the man sleeps\n")
    assert len([line for line in pretty.lines if line.startswith("-")]) == 2  # their log-probabilities


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--k", "2"], "--k 2 needs --decode viterbi"),
        (["--k", "0", "--decode", "viterbi"], "0; give 1 or more"),
        (["--decode", "best"], "best"),
    ],
)
def test_parse_refuses_in_one_line(call: Call, tiny_run: Path, arguments: list[str], said: str) -> None:
    result = call("parse", tiny_run, *arguments, stdin=SENTENCES)
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1


def test_eos_is_not_shown_and_its_spans_are_merged(call: Call, eos_run: Path) -> None:
    lines = call("parse", eos_run, "--decode", "viterbi", stdin="the dog sees a cat .\ndog\n").lines
    tree = Tree.fromstring(lines[0])
    assert tree.leaves() == ["the", "dog", "sees", "a", "cat", "."]
    assert all(len(node) == 2 for node in tree.subtrees() if node.height() > 2)
    assert parse_tree(lines[1]).words == ("dog",)


def test_order_and_batches_do_not_matter(tiny_run: Path) -> None:
    run = load(tiny_run)
    sentences = tiny_sentences(20, seed=3)
    together = run.parse(sentences, decode="viterbi")
    assert [run.parse([sentence], decode="viterbi")[0] for sentence in sentences] == together
    best = run.k_best(sentences[:4], 2)
    assert [trees[0].tree.to_nltk() for trees in best] == together[:4]
    assert all(trees[0].log_probability > trees[1].log_probability > -math.inf for trees in best)
    with pytest.raises(ValueError, match="decode = 'best'"):
        run.parse(sentences, decode="best")


def test_random_trees_of_sentences(tiny_run: Path) -> None:
    """Their spans come as often as the posterior says; the same seed gives the same trees."""
    run = load(tiny_run)
    sentences = ["The dog , sees a cat .", "dog"]
    drawn, alone = run.sample_trees(sentences, 400)
    assert [item.log_probability for item in alone] == [-math.inf] * 400
    assert all(item.log_probability <= run.score(sentences)[0] + 1e-4 for item in drawn[:5])
    share = sum((1, 6) in {(i, j) for i, j, _ in item.tree.spans} for item in drawn) / 400
    exact = float(run.span_marginals(sentences)[0][1, 6])
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / 400)
    assert run.sample_trees(sentences, 3, seed=5) == run.sample_trees(sentences, 3, seed=5)
    kept = run.sample_trees(sentences[:1], 20, [{"require": [[1, 6]]}])[0]
    assert all((1, 6) in {(i, j) for i, j, _ in item.tree.spans} for item in kept)
    for arguments, said in (({"samples": 0}, "samples = 0"), ({"samples": 1, "seed": -1}, "seed = -1")):
        with pytest.raises(ValueError, match=said):
            run.sample_trees(sentences, **arguments)


def test_constraints_hold_for_viterbi_too(tiny_run: Path) -> None:
    run = load(tiny_run)
    sentence = "the dog sees a cat"
    for span in ([1, 3], [2, 4], [0, 4]):
        (tree,) = run.parse_spans([sentence], [{"require": [span]}], decode="viterbi")
        assert tuple(span) in {(i, j) for i, j, _ in tree.spans}
        (trees,) = run.k_best([sentence], 3, [{"forbid": [span]}])
        assert all(tuple(span) not in {(i, j) for i, j, _ in item.tree.spans} for item in trees)
