"""Expected uses of symbols: over text, and in what the grammar itself makes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import simplepcfg
from simplepcfg import Run
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseEmissions, DenseGrammar, SimpleGrammar
from simplepcfg.grammars.kept import Kept
from simplepcfg.inference.inspection import describe_symbols, expected_uses
from tiny_runs import make_tiny_run, tiny_sentences

SENTENCES = ["dog", "", *tiny_sentences(12, seed=4)]
KINDS = {
    "sn-pcfg": [],
    "n-pcfg": ["model.kind=n-pcfg"],
    "rank-pcfg": ["model.kind=rank-pcfg", "model.networks=residual", "model.rank=5", "model.init_logit_std=2"],
    "tn-pcfg": ["model.kind=tn-pcfg", "model.rank=5", "model.init_logit_std=2"],
}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run") / "run"
    return simplepcfg.load(make_tiny_run(folder, *KINDS[request.param]), "cpu")


def test_uses_over_text_are_expected_counts(run: Run) -> None:
    report = run.symbols(SENTENCES, top=100)
    words = sum(len(sentence.split()) for sentence in SENTENCES[2:])
    assert report.sentences == 12
    assert len(report.nonterminals) == report.nonterminal_usage.symbols == 4
    assert len(report.preterminals) == 8
    assert sum(use.uses for use in report.nonterminals) == pytest.approx(words - 12, rel=1e-4)
    assert sum(use.uses for use in report.preterminals) == pytest.approx(words, rel=1e-4)
    assert sum(use.share for use in report.nonterminals) == pytest.approx(1)
    falling = [use.uses for use in report.nonterminals]
    assert falling == sorted(falling, reverse=True)


def test_words_and_spans_are_those_of_the_most_probable_trees(run: Run) -> None:
    report = run.symbols(SENTENCES, top=2)
    tokens = [item.tokens for item in run.prepare(SENTENCES)]
    trees = run.parse_spans(SENTENCES, decode="viterbi")
    for use in report.nonterminals:
        spans = Counter(
            " ".join(words[i:j])
            for words, tree in zip(tokens, trees, strict=True)
            for i, j, label in tree.spans
            if label == use.symbol
        )
        assert use.examples == spans.most_common(5)
        words = Counter(word for text in spans.elements() for word in text.split())
        assert use.words == [(word, count / words.total()) for word, count in words.most_common(5)]


def test_children_and_emissions_are_the_rules(run: Run) -> None:
    use = run.symbols(SENTENCES, top=1).nonterminals[0]
    symbol = int(use.symbol.removeprefix("NT-"))
    grammar = run.grammar if isinstance(run.grammar, DenseGrammar) else run.grammar.to_dense()
    for children, rules in ((use.left, grammar.rules[symbol].sum(-1)), (use.right, grammar.rules[symbol].sum(-2))):
        assert [child.probability for child in children] == pytest.approx(rules.topk(5).values.tolist(), rel=1e-5)
    assert all((child.word is None) == child.symbol.startswith("NT-") for child in (*use.left, *use.right))
    tag = run.symbols(SENTENCES, top=1).preterminals[0]
    table = run.grammar.emissions.log_probabilities(torch.arange(1, len(run.vocabulary))[None])[0]
    best = table[:, int(tag.symbol.removeprefix("T-"))].exp().topk(10)
    assert [value for _, value in tag.words] == pytest.approx(best.values.tolist())
    assert [word for word, _ in tag.words] == [run.vocabulary.words[i + 1] for i in best.indices.tolist()]


def small(left_nonterminal: float) -> SimpleGrammar:
    """A → A or T on the left, always T on the right: n − 1 uses of A, n of T, with n geometric."""
    left = torch.tensor([[left_nonterminal, 1 - left_nonterminal]])
    right = torch.tensor([[0.0, 1.0]])
    return SimpleGrammar(torch.ones(1), left, right, DenseEmissions(torch.zeros(1, 2)))


def test_uses_in_the_grammars_own_sentences() -> None:
    nonterminals, preterminals = expected_uses(small(0.75))
    assert nonterminals.tolist() == pytest.approx([4.0])
    assert preterminals.tolist() == pytest.approx([5.0])


def test_own_sentences_of_a_dense_grammar_are_those_of_the_simple_one() -> None:
    simple = small(0.75)
    for one, two in zip(expected_uses(simple.to_dense()), expected_uses(simple), strict=True):
        torch.testing.assert_close(one, two)


def test_models_without_symbols_to_show_are_named(tmp_path: Path) -> None:
    compound = ["model.kind=sc-pcfg", "model.latent=2", "model.encoder=4"]
    large = ["model.kind=rank-pcfg", "model.rank=5", "model.nonterminals=200", "model.preterminals=400"]
    for number, (settings, named) in enumerate([(compound, "for each sentence"), (large, "use a smaller one")]):
        run = simplepcfg.load(make_tiny_run(tmp_path / str(number), *settings), "cpu")
        with pytest.raises(InputError, match=named):
            run.symbols(SENTENCES)


def test_a_grammar_without_finite_expectation_is_refused() -> None:
    rules = torch.tensor([[0.6, 0.4]])
    endless = SimpleGrammar(torch.ones(1), rules, rules, DenseEmissions(torch.zeros(1, 2)))
    for grammar in (endless, small(1.0)):
        with pytest.raises(InputError, match="no finite expected length"):
            expected_uses(grammar)


def test_without_text_the_runs_own_file_is_taken(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(tiny_sentences(40, seed=1)))
    own = simplepcfg.fit(path, settings={"model.nonterminals": 3, "model.preterminals": 4, "training.epochs": 1})
    report = own.symbols()
    assert report.source.endswith("text.txt")
    assert report.sentences == 40
    path.unlink()
    tags_only = torch.cat([torch.zeros(3, 3), torch.full((3, 4), 0.25)], 1)
    changed = replace(own.grammar, left=tags_only, right=tags_only)
    own._grammar, own._make_grammar = Kept(), lambda: changed
    report = own.symbols()
    assert (report.source, report.sentences) == ("the grammar itself", None)
    assert sum(use.uses for use in report.preterminals) == pytest.approx(2000)  # one rule, two words a sentence
    assert not any(use.examples for use in report.nonterminals)


def test_usage(run: Run) -> None:
    usage = describe_symbols(run, SENTENCES).nonterminal_usage
    uses = [use.uses for use in run.symbols(SENTENCES, top=10).nonterminals]
    assert usage.used == sum(value >= 1 for value in uses)
    assert 1 <= usage.perplexity <= 4
    assert 1 <= usage.covering <= 4


@pytest.mark.parametrize(("sentences", "top", "named"), [(["dog"], 5, "two words"), (SENTENCES, 0, "top = 0; give a")])
def test_bad_input(run: Run, sentences: list[str], top: int, named: str) -> None:
    with pytest.raises(InputError, match=named):
        run.symbols(sentences, top)
