"""The library in a few lines: fit, load, score, parse, evaluate, save."""

import math
import signal
from pathlib import Path

import pytest
import torch
from nltk.tree import Tree

import simplepcfg
from simplepcfg import Run, fit, load
from simplepcfg.data.readers import read_trees
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.errors import InputError, NumericalError
from simplepcfg.inference.systems import System, evaluate_systems
from simplepcfg.runs.config.files import load_config
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import train
from tiny_runs import SETTINGS, make_tiny_run, tiny_sentences

TINY = {key: (value if value == "cpu" else int(value)) for key, value in (setting.split("=") for setting in SETTINGS)}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load(make_tiny_run(tmp_path_factory.mktemp("api") / "run"))


def test_fit_in_memory_then_save_and_load(tmp_path: Path) -> None:
    sentences = tiny_sentences(60)
    fitted = fit(sentences, settings=TINY)
    assert fitted.directory is None
    loaded = load(fitted.save(tmp_path / "saved"))
    assert loaded.score(sentences) == fitted.score(sentences)
    assert [str(tree) for tree in loaded.parse(sentences)] == [str(tree) for tree in fitted.parse(sentences)]
    with pytest.raises(InputError, match="already holds a model; choose another folder"):
        fitted.save(tmp_path / "saved")


def test_a_run_says_what_it_is(run: Run) -> None:
    assert repr(run) == f"<Run {run.name}: sn-pcfg, {len(run.vocabulary)} words, on cpu>"
    assert repr(simplepcfg.load("english", "cpu")) == "<Run english: sn-pcfg, 25,161 words, on cpu>"


def test_systems_by_name(run: Run, tmp_path: Path) -> None:
    trees = list(generate_treebank(20, 3))
    file = tmp_path / "test.trees"
    file.write_text("\n".join(tree.to_brackets() for tree in trees), encoding="utf-8")
    mine, right = evaluate_systems([str(run.directory), "right-branching"], str(file))
    assert (mine.name, right.name) == (str(run.directory), "right-branching")
    assert mine.reports[0].f1 == run.evaluate(trees).f1
    again = evaluate_systems([System.named("right-branching")], str(file))[0]
    assert again.reports[0].f1 is not None
    with pytest.raises(InputError, match="right-branching"):
        evaluate_systems(["right-branchng"], str(file))


def test_fit_into_a_folder(tmp_path: Path) -> None:
    words = [sentence.split() for sentence in tiny_sentences(60)]
    fitted = fit(words, words[:10], settings=TINY, out=tmp_path / "run")
    assert load(tmp_path / "run").score(words[:3]) == fitted.score(words[:3])


def test_sentences_may_be_strings_words_or_trees(run: Run) -> None:
    sentence = "The dog sees 2 cats ."
    tree = Tree.fromstring("(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (CD 2) (NNS cats))) (. .))")
    scores = run.score([sentence, sentence.split(), tree])
    assert scores[0] == scores[1] == scores[2] < 0
    assert [found.leaves() for found in run.parse([sentence, sentence.split(), tree])] == [sentence.split()] * 3


def test_scores_and_trees_do_not_depend_on_the_batch(run: Run) -> None:
    sentences = tiny_sentences(30, seed=8)
    together = run.score(sentences)
    assert [run.score([sentence])[0] for sentence in sentences] == pytest.approx(together, rel=1e-5)
    assert [run.parse([sentence])[0] for sentence in sentences] == run.parse(sentences)


def test_awkward_sentences(run: Run) -> None:
    trees = run.parse(["", "dog", ". .", []])
    assert [tree.leaves() for tree in trees] == [[], ["dog"], [".", "."], []]
    assert trees[1] == Tree("X", [Tree("T", ["dog"])])
    assert run.score(["", "dog", ". ."]) == [-math.inf] * 3
    assert run.score([]) == run.parse([]) == []


def test_a_very_long_sentence_has_a_deep_tree(run: Run) -> None:
    words = ["dog"] * 300
    assert run.parse_spans([words])[0].words == tuple(words)
    assert math.isfinite(run.score([words])[0])


def test_evaluate_takes_trees_sentences_and_files(run: Run, tmp_path: Path) -> None:
    trees = generate_treebank(20, seed=4)
    path = tmp_path / "gold.trees"
    path.write_text("".join(tree.to_brackets() + "\n" for tree in trees))
    report = run.evaluate(trees)
    assert report.sentence_f1 is not None
    assert run.evaluate(path) == run.evaluate(str(path)) == report
    assert run.evaluate([tree.to_nltk() for tree in read_trees(path)]) == report
    text = run.evaluate([" ".join(tree.words) for tree in trees])
    assert text.f1 is None
    assert text.perplexity == report.perplexity
    assert text.to_dict()["perplexity"] == report.to_dict()["perplexity"]


@pytest.mark.parametrize("data", [[], ["dog", "cat"], [generate_treebank(1, 1)[0], "the dog"]])
def test_evaluate_refuses(run: Run, data: list[object]) -> None:
    with pytest.raises(InputError):
        run.evaluate(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("sentences", ["the dog barks", [[1, 2]], [["dog", None]], [3], 3])
def test_what_is_no_list_of_sentences_is_refused(run: Run, sentences: object) -> None:
    with pytest.raises(InputError):
        run.score(sentences)  # type: ignore[arg-type]


def test_damaged_weights_are_a_numerical_error(run: Run, tmp_path: Path) -> None:
    damaged = load(run.save(tmp_path / "copy"))
    with torch.no_grad():
        damaged.model.get_parameter("start").fill_(math.nan)
    with pytest.raises(NumericalError):
        damaged.score(["the dog sees a cat"])
    with pytest.raises(NumericalError):
        damaged.pruned_score(["the dog sees a cat"])


def test_exports() -> None:
    assert {"fit", "load", "Run", "__version__"} <= set(dir(simplepcfg))
    with pytest.raises(AttributeError, match="nothing"):
        _ = simplepcfg.nothing  # type: ignore[attr-defined]


def test_a_run_fitted_to_files_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "valid.txt"):
        Path(name).write_text("\n".join(tiny_sentences(40)))
    fitted = fit("train.txt", Path("valid.txt"), settings=TINY, out="run")
    data = fitted.config.data
    assert (data.train, data.valid) == (str(tmp_path / "train.txt"), str(tmp_path / "valid.txt"))
    assert train(None, "run", resume=True).epochs == 1


@pytest.mark.parametrize("value", [None, object(), {1, 2}])
def test_settings_that_no_configuration_can_hold(value: object) -> None:
    with pytest.raises(InputError, match=r"^settings data\.valid = "):
        fit(["the dog"], settings={"data.valid": value})


def test_settings_take_paths_and_any_character(tmp_path: Path) -> None:
    text = tmp_path / "😀.txt"
    text.write_text("\n".join(tiny_sentences(20)))
    fitted = fit(tiny_sentences(40), settings=TINY | {"data.valid": text, "name": "😀"})
    assert (fitted.config.name, fitted.config.data.valid) == ("😀", str(text))


@pytest.mark.parametrize("source", [3, [3, 4], [None]])
def test_fit_refuses_what_is_no_text(source: object) -> None:
    with pytest.raises(InputError, match=r"give a"):
        fit(source, settings=TINY)  # type: ignore[arg-type]


def test_an_interrupted_fit_in_memory_promises_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Interrupted("all saved; go on with --resume", signal.SIGINT)

    monkeypatch.setattr("simplepcfg.fitting.train_run", stop)
    with pytest.raises(Interrupted, match=r"^stopped by SIGINT; nothing was kept: .*out=") as caught:
        fit(["the dog barks"], settings=TINY)
    assert caught.value.exit_code == 130
    with pytest.raises(Interrupted, match=r"^all saved"):  # nothing had begun
        fit(["the dog barks"], settings=TINY, out=tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(Interrupted, match=r"simplepcfg\.training\.train\(None, '.*', train_text=\.\.\., resume=True\)"):
        fit(["the dog barks"], settings=TINY, out=tmp_path)  # the command line could not read the text


def test_fit_on_raw_text(tmp_path: Path) -> None:
    """From a file and from strings, which hold several sentences each."""
    paragraphs = ["The dog saw a cat. The cat didn't see the dog!", "A dog barks, and the cat runs."] * 10
    file = tmp_path / "raw.txt"
    file.write_text("\n\n".join(paragraphs))
    settings = {"model.nonterminals": 4, "model.preterminals": 8, "model.embedding": 8, "training.epochs": 1}
    runs = [fit(source, raw=True, settings=settings, device="cpu") for source in (paragraphs, file)]
    assert runs[0].vocabulary == runs[1].vocabulary
    assert {"did", "n't", "barks", "runs"} <= set(runs[0].vocabulary.words)
    assert runs[0].config.data.raw
    assert runs[0].score(["The cat runs."]) == runs[1].score([["The", "cat", "runs", "."]])
    with pytest.raises(InputError, match=r"data\.raw=true beside a RunConfig"):
        fit(paragraphs, raw=True, config=load_config("demo", environment={}))
