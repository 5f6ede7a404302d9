"""What notebooks show of a run's answers, and the answers that were made for pictures."""

import math
import pickle
from pathlib import Path

import pytest

import simplepcfg
from simplepcfg.errors import InputError
from simplepcfg.inference.run import Run
from simplepcfg.inference.symbol_guide import SymbolGuide
from simplepcfg.runs.history import read_history
from tiny_runs import make_tiny_run

SENTENCE = "the old dog saw , the cat ."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Run:
    return simplepcfg.load(make_tiny_run(tmp_path_factory.mktemp("tiny") / "run"))


def test_chart_is_over_the_words_that_count(run: Run) -> None:
    chart = run.chart(SENTENCE, symbols=2)
    assert chart.words == ["the", "old", "dog", "saw", "the", "cat"]
    assert chart.places == [0, 1, 2, 3, 5, 6]
    assert sum(span.probability for span in chart.spans) == pytest.approx(5, abs=1e-4)
    (marginals,) = run.span_marginals([SENTENCE])
    for span in chart.spans:
        first, last = chart.places[span.start], chart.places[span.end - 1]
        assert span.probability == pytest.approx(float(marginals[first, last + 1]), abs=1e-6)
        assert chart.table()[span.start][span.end] == span.probability
        assert len(span.symbols) == 2
        assert span.symbols[0][1] >= span.symbols[1][1]
        assert sum(share for _, share in span.symbols) <= span.probability + 1e-5


def test_chart_under_constraints(run: Run) -> None:
    free = run.chart(SENTENCE)
    forbidden = run.chart(SENTENCE, {"forbid": [[0, 3]]})
    required = run.chart(SENTENCE, {"require": [[0, 3]]})
    assert 0 < free.table()[0][3] < 1
    assert forbidden.table()[0][3] == 0
    assert required.table()[0][3] == pytest.approx(1, abs=1e-5)
    assert all(not span.symbols for span in free.spans)


@pytest.mark.parametrize("sentence", ["", "dog", "..."])
def test_charts_of_short_sentences(run: Run, sentence: str) -> None:
    assert run.chart(sentence, symbols=2).spans == []
    assert "<svg" in run.chart(sentence).to_svg()


def test_describe_symbol(run: Run) -> None:
    found = run.describe_symbol("NT-1")
    shares = [child.probability for child in found.left]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(float(run.grammar.left[1].max()))
    assert [child.word is None for child in found.right] == [child.symbol.startswith("NT") for child in found.right]
    tag = run.describe_symbol("T-2")
    assert tag.left == tag.right == []
    table = run.grammar.emissions.log_probabilities(_all_words(run))[0, :, 2].exp()
    assert tag.words[0][1] == pytest.approx(float(table.max()), rel=1e-5)
    assert tag.words[0][0] == run.vocabulary.words[1 + int(table.argmax())]
    assert 0 < sum(share for _, share in SymbolGuide(run).describe("NT-1", most=1000).words) <= 1 + 1e-6


def _all_words(run: Run):
    import torch

    return torch.arange(1, len(run.vocabulary))[None]


@pytest.mark.parametrize("name", ["NT-4", "T-8", "X", "NT--1", "nt-1", "", "NT-1 "])
def test_unknown_symbols_are_refused(run: Run, name: str) -> None:
    with pytest.raises(InputError, match="take one of NT-0 to NT-3 or T-0 to T-7"):
        run.describe_symbol(name)


def test_notebooks_see_pictures(run: Run) -> None:
    (tree,) = run.parse_spans([SENTENCE])
    ((best, *_),) = run.k_best([SENTENCE], 2)
    (table,) = run.surprisal([SENTENCE])
    for shown in (tree, best, table, run.chart(SENTENCE)):
        assert shown._repr_svg_().startswith("<svg")
    assert isinstance(table, list)
    assert math.fsum(record.surprisal or 0.0 for record in table) == pytest.approx(-run.score([SENTENCE])[0], rel=1e-5)
    html = run._repr_html_()
    assert "<svg" in html
    assert "validation perplexity" in html


def test_history(run: Run, tmp_path: Path) -> None:
    assert run.directory is not None
    history = read_history(run.directory)
    assert [line["epoch"] for line in history.epochs] == [1]
    assert history.by_epoch("valid_perplexity")[0][1] > 1
    assert history.seconds is not None
    assert read_history(None).epochs == []
    assert read_history(tmp_path).steps == []
    (tmp_path / "metrics.jsonl").write_text('{"kind": "epoch", "epoch": 1, "step": 3, "valid_perplexity": null}\n{"ki')
    assert math.isnan(read_history(tmp_path).by_epoch("valid_perplexity")[0][1])


def test_a_run_without_a_folder_can_be_shown(run: Run) -> None:
    bare = Run(run.model, run.vocabulary, run.config)
    assert "<svg" not in bare._repr_html_()


def test_the_last_line_of_a_cell_shows_the_tree_of_parse(run: Run) -> None:
    """nltk's own picture needs a package that is not installed."""
    from nltk.tree import Tree

    (tree,) = run.parse([SENTENCE])
    assert tree._repr_svg_().startswith("<svg")
    same = Tree.fromstring(str(tree))
    assert tree == same
    assert same == tree
    assert (same != tree) is False
    assert repr(tree).startswith("Tree('X'")
    assert pickle.loads(pickle.dumps(tree)) == same
    assert run.parse([""])[0]._repr_svg_().startswith("<svg")


def test_the_probability_of_a_bracketing_is_the_sum_over_its_derivations(run: Run) -> None:
    sentence = "the old dog ,"
    found = run.bracketings(sentence, 5, samples=400)
    assert len(found) == 2  # all binary trees over three words
    assert sum(item.probability for item in found) == pytest.approx(1, abs=1e-4)
    assert [item.probability for item in found] == sorted((item.probability for item in found), reverse=True)
    (derivations,) = run.k_best([sentence], 10_000)
    whole = run.score([sentence])[0]
    missing = 1 - sum(math.exp(one.log_probability - whole) for one in derivations)  # 10,000 are not all of them
    for item in found:
        spans = [span[:2] for span in item.tree.spans]
        same = [one for one in derivations if [span[:2] for span in one.tree.spans] == spans]
        shares = [math.exp(one.log_probability - whole) for one in same]
        assert sum(shares) - 1e-5 <= item.probability <= sum(shares) + missing + 1e-5
        assert item.sampled == pytest.approx(item.probability, abs=0.1)
    (forbidden,) = ([span[:2] for span in item.tree.spans][1] for item in found[:1])
    rest = run.bracketings(sentence, 5, {"forbid": [forbidden]}, samples=400)
    assert all(forbidden not in [span[:2] for span in item.tree.spans] for item in rest)
    assert sum(item.probability for item in rest) == pytest.approx(1, abs=1e-4)
    assert run.bracketings("dog") == []
    with pytest.raises(InputError, match="k = 0"):
        run.bracketings(sentence, 0)


def test_symbols_have_names_by_typical_words(run: Run) -> None:
    words = [word for word, _ in run.describe_symbol("T-3").words if word != "<unk>"]
    assert run.symbol_name("T-3") == "/".join(words[:2])
    first, last = run.symbol_name("NT-2").split(" … ")
    assert first in run.vocabulary
    assert last in run.vocabulary
    assert run.symbol_name("NP") == "NP"
