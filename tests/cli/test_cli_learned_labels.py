"""Labels of minimum-Bayes-risk trees, learned from gold trees and kept in a run's folder."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch

from command_calls import Call
from simplepcfg import load
from simplepcfg.data.readers import read_trees
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.evaluation.label_report import judge_labels
from simplepcfg.evaluation.symbol_labels import gold_labels
from simplepcfg.inference.label_mapping import LabelMapping
from simplepcfg.inference.labelling import learn_labels
from tiny_runs import make_tiny_run


@pytest.fixture
def labelled(call: Call, tiny_run: Path, trees_file: Path, tmp_path: Path) -> Path:
    """A copy of a run with learned labels."""
    copy = tmp_path / "labelled"
    shutil.copytree(tiny_run, copy)
    assert call("evaluate", copy, trees_file, "--write-labels", copy / "labels.json", "--quiet").code == 0
    return copy


def test_trees_have_labels_and_none_takes_them_away(
    call: Call, labelled: Path, tiny_run: Path, trees_file: Path
) -> None:
    shown = call("parse", labelled, trees_file)
    bare = call("parse", tiny_run, trees_file)
    assert call("parse", labelled, trees_file, "--labels", "none").out == bare.out
    run, gold = load(labelled), list(read_trees(trees_file))
    known = {label for tree in gold for label in gold_labels(tree).values()} | {"X"}
    trees = run.parse_spans(gold)
    assert [tree.to_brackets() for tree in trees] == shown.lines
    for tree, binary in zip(trees, run.parse_spans(gold, labels=False), strict=True):
        assert {label for _, _, label in tree.spans} <= known
        assert {(i, j) for i, j, _ in tree.spans} <= {(i, j) for i, j, _ in binary.spans}
        assert {label for _, _, label in binary.spans} == {"X"}
    tags = {tag for tree in gold for tag in tree.tags}
    assert {tag for tree in trees if len(tree) > 1 for tag in tree.tags} <= tags | {"T", "PUNCT"}
    assert run.parse(["a b"])[0].label() == trees[0].spans[0][2] or run.parse(["a b"])[0].label() in known


def test_a_single_word_has_the_tag_that_emits_it(labelled: Path, trees_file: Path) -> None:
    run, gold = load(labelled), list(read_trees(trees_file))
    words = sorted({word for tree in gold for word in tree.words if word.isalpha() and word.islower()})[:4]
    grammar = run.model.grammar()
    for word, tree in zip(words, run.parse_spans([[word] for word in words]), strict=True):
        emitting = grammar.log_emissions(torch.tensor([run.vocabulary.encode([word])]))[0, 0].softmax(0).detach()
        votes: Counter[str] = Counter()
        for symbol, shares in run.labels.tag_shares.items():
            for tag, share in shares.items():
                votes[tag] += share * float(emitting[int(symbol.removeprefix("T-"))])
        assert tree.tags == (votes.most_common(1)[0][0],)
        assert tree.spans == ((0, 1, "X"),)


def test_dropped_punctuation_alone_has_tags_as_it_has_beside_words(labelled: Path) -> None:
    alone, beside = load(labelled).parse_spans(["( ;", "the dog ( ;"])
    assert alone.tags == beside.tags[2:]
    assert alone.spans == ((0, 2, "X"),)
    assert "T" not in alone.tags


def test_dropped_punctuation_has_the_tags_of_a_treebank_whose_tags_are_not_penns(tiny_run: Path) -> None:
    tree = SpanTree(("the", "dog", ",", "barks", "."), ("ART", "NOM", "$,", "VVFIN", "$."), ((0, 5, "S"), (0, 2, "NP")))
    mapping = learn_labels(load(tiny_run), [tree])
    assert mapping.punctuation == {",": "$,", ".": "$."}
    assert set(mapping.tags.values()) <= {"ART", "NOM", "VVFIN"}


def test_shares_are_probabilities(tiny_run: Path, trees_file: Path) -> None:
    mapping = learn_labels(load(tiny_run), list(read_trees(trees_file)))
    for shares in (mapping.phrase_shares, mapping.tag_shares):
        assert shares
        for row in shares.values():
            assert 0.8 < sum(row.values()) <= 1.001
    assert "none" in {label for row in mapping.phrase_shares.values() for label in row}


def test_they_are_saved_with_the_run(labelled: Path, tmp_path: Path) -> None:
    run = load(labelled)
    again = load(run.save(tmp_path / "saved"))
    assert again.labels == run.labels != None  # noqa: E711 (both at once)
    assert again.parse_spans(["a b c"]) == run.parse_spans(["a b c"])


def test_labels_of_other_weights_are_refused(labelled: Path, tmp_path: Path) -> None:
    other = make_tiny_run(tmp_path / "other", "seed=3")
    shutil.copy(labelled / "labels.json", other / "labels.json")
    with pytest.raises(InputError, match="another run"):
        load(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"phrase_shares": {"T-1": {"NP": 1.0}}},
        {"phrase_shares": {"NT-1": {"N P": 1.0}}},
        {"tag_shares": {"T-1": {"NN": "much"}}},
        {"punctuation": {".": "a b"}},
        {"tag_shares": []},
    ],
)
def test_damaged_shares_are_refused(labelled: Path, changed: dict[str, object]) -> None:
    path = labelled / "labels.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError, match="no labels of symbols"):
        LabelMapping.load(path)


def test_evaluate_judges_learned_labels(call: Call, labelled: Path, trees_file: Path) -> None:
    (report,) = json.loads(call("evaluate", labelled, trees_file, "--labels", "--json", "-").out)
    own = report["labels"]["own_labels"]
    assert own.keys() == {"sentence_f1", "corpus_f1", "bracket_f1", "tag_accuracy"}
    assert all(0 <= value <= 100 for value in own.values())
    assert "tagging accuracy by learned labels" in call("evaluate", labelled, trees_file, "--labels").out


def test_judge_labels() -> None:
    gold = SpanTree(("a", "b", "c"), ("D", "N", "V"), ((0, 3, "ROOT"), (0, 3, "S"), (0, 2, "NP-SBJ"), (2, 3, "VP")))
    guess = SpanTree(("a", "b", ".", "c"), ("D", "N", ".", "N"), ((0, 4, "S"), (0, 2, "NP")))
    own = judge_labels([gold], [["D", "N", "V"]], [[0, 1, 3]], [guess])
    assert (own.sentence_f1, own.corpus_f1) == (100, 100)
    assert own.bracket_f1 == pytest.approx(80)  # S and NP of two guessed and three gold constituents
    assert own.tag_accuracy == pytest.approx(200 / 3)
    wrong = judge_labels([gold], None, [[0, 1, 3]], [SpanTree(guess.words, guess.tags, ((0, 4, "S"), (0, 2, "VP")))])
    assert (wrong.corpus_f1, wrong.tag_accuracy) == (0, None)
