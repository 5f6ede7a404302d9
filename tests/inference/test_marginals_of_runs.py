"""A run's tags, posteriors, entropy and constraints; several runs as an ensemble."""

import math
from pathlib import Path

import pytest
import torch

import simplepcfg
from simplepcfg import Run
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.errors import InputError
from simplepcfg.grammars import simple
from simplepcfg.inference.marginals import span_marginals
from simplepcfg.ops import prefix
from tiny_runs import make_tiny_run, tiny_sentences

SENTENCES = ["The dog , sees a cat .", "dog", "", ". ,", *tiny_sentences(6, seed=4)]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    settings = [[], ["training.epochs=3"], ["seed=7", "model.nonterminals=6", "data.min_count=3"]]
    return [simplepcfg.load(make_tiny_run(folder / str(k), *more), "cpu") for k, more in enumerate(settings)]


@pytest.fixture(scope="module")
def eos_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return simplepcfg.load(make_tiny_run(tmp_path_factory.mktemp("eos") / "run", "data.eos=true"), "cpu")


def test_tags_are_those_of_all_derivations(runs: list[Run]) -> None:
    run = runs[0]
    found = run.tags(SENTENCES)
    assert [[item.word for item in words] for words in found] == [sentence.split() for sentence in SENTENCES]
    assert [item.tag for item in found[0]][2] is None  # the comma
    assert found[1][0].tag is None
    ids = torch.tensor([run.vocabulary.encode(["the", "dog", "sees", "a", "cat"])])
    posteriors = run.grammar.tag_marginals(ids)[0]
    seen = [item for item in found[0] if item.tag is not None]
    assert [item.tag for item in seen] == posteriors.argmax(-1).tolist()
    torch.testing.assert_close(torch.tensor([item.probability for item in seen]), posteriors.amax(-1))


def test_the_grammar_of_a_run_pays_for_no_gradients(runs: list[Run]) -> None:
    """Word embeddings are weights; outside no_grad they must not make answers carry gradients."""
    run = runs[0]
    words = torch.tensor([run.vocabulary.encode(["the", "dog", "sees", "a", "cat"])])
    assert torch.is_grad_enabled()
    assert run.grammar.detached().log_partition(words) == run.grammar.log_partition(words)
    for question in ("log_partition", "surprisal", "span_marginals", "tag_marginals", "entropy"):
        assert not getattr(run.grammar, question)(words).requires_grad
    assert run.model.grammar().log_partition(words).requires_grad


def test_span_marginals(runs: list[Run]) -> None:
    found = runs[0].span_marginals(SENTENCES)
    assert [table.shape[0] for table in found[:4]] == [8, 2, 1, 3]
    kept = torch.tensor([0, 1, 3, 4, 5, 7])  # posts of the words that are not punctuation
    assert float(found[0][kept][:, kept].sum()) == pytest.approx(4, abs=1e-4)
    assert not found[1].any()


def test_entropy(runs: list[Run]) -> None:
    entropy = runs[0].entropy(SENTENCES)
    assert entropy[1:4] == [-math.inf] * 3
    assert all(value > 0 for value in (entropy[0], *entropy[4:]))


def test_constraints_hold_in_trees_over_the_users_words(runs: list[Run]) -> None:
    run = runs[0]
    constraints = [{"require": [[1, 5]], "forbid": [[3, 5]]}, *[None] * (len(SENTENCES) - 1)]
    tree = run.parse_spans(SENTENCES, constraints)[0]
    spans = {(i, j) for i, j, _ in tree.spans}
    assert (1, 5) in spans
    assert (3, 5) not in spans
    assert run.parse_spans(SENTENCES, constraints)[1:] == run.parse_spans(SENTENCES)[1:]
    assert run.score(SENTENCES, constraints)[0] < run.score(SENTENCES)[0]
    assert run.entropy(SENTENCES, constraints)[0] < run.entropy(SENTENCES)[0]
    assert run.span_marginals(SENTENCES, constraints)[0][1, 5] == pytest.approx(1, abs=1e-5)
    assert run.tags(SENTENCES, constraints)[0] != run.tags(SENTENCES)[0]


def test_a_large_bonus_decides(runs: list[Run]) -> None:
    for span in ([0, 2], [1, 5], [3, 6]):
        tree = runs[0].parse_spans(SENTENCES[:1], [{"bonus": [[*span, 50.0]]}])[0]
        kept = [i for i, word in enumerate(tree.words) if word.isalpha()]
        inner = {tuple(k for k in kept if i <= k < j) for i, j, _ in tree.spans}
        assert tuple(k for k in kept if span[0] <= k < span[1]) in inner


def test_constraints_that_ask_for_nothing_change_nothing(runs: list[Run]) -> None:
    empty: list[dict[str, list[int]]] = [{} for _ in SENTENCES]
    assert runs[0].score(SENTENCES, empty) == runs[0].score(SENTENCES)
    assert runs[0].parse(SENTENCES, empty) == runs[0].parse(SENTENCES)
    zero = [{"bonus": [[0, 2, 0.0]]}, *empty[1:]]
    assert runs[0].score(SENTENCES, zero) == pytest.approx(runs[0].score(SENTENCES), abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"require": [[0, 3], [1, 5]]}, r"sentence 0: the required spans \[0, 3\] and \[1, 5\] cross"),
        ({"forbid": [[0, 2], [1, 4], [3, 5], [4, 6]]}, "sentence 0: the constraints leave no tree"),
        ({"require": [[0, 8]]}, "sentence 0: .*7 words"),
        ({"ask": []}, "sentence 0: 'ask' is no constraint"),
    ],
)
def test_bad_constraints_are_named(runs: list[Run], asked: dict[str, list[list[int]]], named: str) -> None:
    with pytest.raises(InputError, match=named):
        runs[0].parse(SENTENCES[:1], [asked])
    with pytest.raises(InputError, match="1 constraint for 10 sentences"):
        runs[0].score(SENTENCES, [None])
    with pytest.raises(InputError, match="2 constraints for 1 sentence"):
        runs[0].k_best(SENTENCES[:1], 2, [None, asked])


def test_constraints_with_eos(eos_run: Run) -> None:
    for span in ([1, 5], [4, 6], [0, 2]):
        tree = eos_run.parse_spans(["the dog sees a small cat"], [{"require": [span]}])[0]
        assert tuple(span) in {(i, j) for i, j, _ in tree.spans}
        tree = eos_run.parse_spans(["the dog sees a small cat"], [{"forbid": [span]}])[0]
        assert tuple(span) not in {(i, j) for i, j, _ in tree.spans}


@pytest.mark.parametrize("eos", [False, True])
def test_span_marginals_are_over_the_words_as_given(runs: list[Run], eos_run: Run, eos: bool) -> None:
    """The same counting as in constraints: an entry is the share of trees that requiring its span leaves."""
    run = eos_run if eos else runs[0]
    sentences = ["The dog , sees a cat .", "the man likes my dog", "dog", ", .", ""]
    tables = run.span_marginals(sentences)
    assert [table.shape[0] for table in tables] == [len(sentence.split()) + 1 for sentence in sentences]
    for sentence, table in zip(sentences[:2], tables, strict=False):
        whole, words = run.score([sentence])[0], sentence.split()
        for i in range(len(words)):
            for j in range(i + 2, len(words) + 1):
                if sum(word.isalnum() for word in words[i:j]) < 2:
                    assert table[i, j] == 0
                    continue
                left = run.score([sentence], [{"require": [[i, j]]}])[0]
                assert float(table[i, j]) == pytest.approx(math.exp(left - whole), abs=2e-5)
    for tree, table in zip(run.parse_spans(sentences), tables, strict=True):
        assert all(table[i, j] > 0 for i, j, _ in tree.spans if len(tree.words) > 2)
    asked = [{"forbid": [[4, 6]], "bonus": [[3, 6, 1.0]]}, *[None] * 4]
    changed = run.span_marginals(sentences, asked)
    assert changed[0][4, 6] == 0
    assert changed[0][3, 6] > tables[0][3, 6]
    assert torch.equal(changed[1], tables[1])


def test_an_ensemble_averages_span_marginals(runs: list[Run]) -> None:
    """Of runs with different symbols and vocabularies, sentence by sentence."""
    from simplepcfg.ops.mbr import best_trees

    group = simplepcfg.ensemble(runs)
    trees = group.parse_spans(SENTENCES)
    assert [list(tree.words) for tree in trees] == [sentence.split() for sentence in SENTENCES]
    tables = [span_marginals(run, run.prepare(SENTENCES), None) for run in runs]
    for number in (0, *range(4, len(SENTENCES))):
        mean = sum((table[number] + 1e-3).log() / len(tables) for table in tables).exp()  # type: ignore[union-attr]
        kept = [i for i, word in enumerate(SENTENCES[number].split()) if word.isalnum()]
        best = {(kept[i], kept[j - 1] + 1) for i, j in best_trees(mean[None])[0]}  # type: ignore[index]
        shown = {(i, j) for i, j, _ in trees[number].spans}
        assert {span for span in best if span != (kept[0], kept[-1] + 1)} <= shown
    assert group.parse(SENTENCES)[0].leaves() == SENTENCES[0].split()


def test_an_ensemble_of_one_is_the_run(runs: list[Run]) -> None:
    assert simplepcfg.ensemble(runs[:1]).parse_spans(SENTENCES) == runs[0].parse_spans(SENTENCES)
    gold = generate_treebank(20, seed=3)
    assert simplepcfg.ensemble(runs[:1]).evaluate(gold).f1 == runs[0].evaluate(gold).f1


def test_an_ensemble_evaluates_trees_only(runs: list[Run], tmp_path: Path) -> None:
    gold = generate_treebank(20, seed=3)
    report = simplepcfg.ensemble(runs).evaluate(gold)
    assert report.name == "geometric mean of 3 runs"
    assert report.sentence_f1 is not None
    assert report.perplexity is None
    with pytest.raises(InputError, match="evaluated on trees"):
        simplepcfg.ensemble(runs).evaluate(SENTENCES)


def test_an_ensemble_needs_the_same_words(runs: list[Run], eos_run: Run) -> None:
    with pytest.raises(InputError, match=r"sentence '.*': .* sees 5 tokens, .* 6; an ensemble needs"):
        simplepcfg.ensemble([runs[0], eos_run]).parse(SENTENCES)
    with pytest.raises(InputError, match="at least one"):
        simplepcfg.ensemble([])
    with pytest.raises(InputError, match="give a list of runs"):
        simplepcfg.ensemble("runs/demo")


def test_pruned_scores_are_scores_with_their_errors(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["the dog sees a cat with the old man", "the man sees", "dog"]
    exact = runs[0].score(sentences)
    assert runs[0].pruned_score(sentences) == [(value, 0.0) for value in exact]  # a small grammar
    monkeypatch.setattr(simple, "LEAST_NONTERMINALS", 1)
    monkeypatch.setattr(simple, "SENTENCE_THRESHOLD", 0.03)
    (long, error), *short = runs[0].pruned_score(sentences)
    assert exact[0] - 1 < long < exact[0]
    assert error == pytest.approx(exact[0] - long, rel=0.5)
    assert short == [(pytest.approx(value), pytest.approx(0.0, abs=1e-5)) for value in exact[1:]]
    constraints = [{"require": [[0, 2]]}, None, None]  # with which nothing is pruned
    assert [each.error for each in runs[0].pruned_score(sentences, constraints)] == [0.0, 0.0, 0.0]


def test_pruned_surprisals_come_with_their_errors(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["the dog sees a cat with the old man", "dog"]
    exact = runs[0].surprisal(sentences)
    small = runs[0].surprisal(sentences, pruned=True)
    assert (small, set(small.errors)) == (exact, {0.0})
    monkeypatch.setattr(simple, "LEAST_NONTERMINALS", 1)
    monkeypatch.setitem(prefix.pruned_prefix_states.__wrapped__.__kwdefaults__, "threshold", 0.03)
    tables = runs[0].surprisal(sentences, entropies=True, pruned=True)
    assert len(tables.errors) == 12  # words and ends
    assert max(tables.errors) > 0.01
    one, other = ([record.surprisal or 0.0 for record in answer[0]] for answer in (tables, exact))
    assert one == pytest.approx(other, abs=0.3)
    assert sum(one) > sum(other)  # which is -log p
