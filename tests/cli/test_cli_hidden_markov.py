"""Every command on a run of a hidden Markov model: numbers where there are any, one line where there are none."""

import json
import math
from pathlib import Path

import pytest

import simplepcfg
from command_calls import Call
from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config
from simplepcfg.training import train
from tiny_runs import tiny_sentences

KINDS = {"hmm": [], "lhmm": ["model.rank=3"], "rank-hmm": ["model.rank=3"]}
SETTINGS = [
    "data.eos=true",
    "model.states=5",
    "model.embedding=8",
    "model.networks=residual",
    "model.init_logit_std=1.0",
    "training.epochs=1",
    "training.device=cpu",
    "training.threads=1",
]


@pytest.fixture(scope="module", params=KINDS)
def chain_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    overrides = [f"model.kind={request.param}", *SETTINGS, *KINDS[request.param]]
    train(load_config(None, overrides, environment={}), folder, train_text=tiny_sentences())
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(sentence + "\n" for sentence in tiny_sentences(5, seed=8)))
    return path


def test_score_and_surprisal_agree(call: Call, chain_run: Path, text: Path) -> None:
    scores = [float(line) for line in call("score", chain_run, text).lines]
    assert all(math.isfinite(score) and score < 0 for score in scores)
    rows = [line.split("\t") for line in call("score", chain_run, text, "--surprisal").lines[1:]]
    bits = [sum(float(row[4]) for row in rows if row[0] == str(k + 1) and row[4] != "NA") for k in range(5)]
    assert bits == pytest.approx([-score / math.log(2) for score in scores], rel=1e-4)
    assert [float(row[4]) for row in rows if row[2] == "<end>"] == [0.0] * 5  # after <eos> nothing else comes


def test_perplexity_of_text(call: Call, chain_run: Path, text: Path) -> None:
    run = simplepcfg.load(chain_run, closed_vocabulary=True)
    scores = run.score(text.read_text().splitlines())
    report = run.evaluate(text).perplexity
    assert report is not None
    tokens = sum(len(item.tokens) for item in run.prepare(text.read_text().splitlines()))
    assert report.perplexity == pytest.approx(math.exp(-sum(scores) / tokens))
    assert call("evaluate", chain_run, text).code == 0


def test_completions(call: Call, chain_run: Path) -> None:
    result = call("complete", chain_run, "the", "--samples", 3, "--json", "-", "-k", 10_000)
    assert result.code == 0
    found = simplepcfg.load(chain_run).complete("the", 10_000, samples=3)
    assert sum(share for _, share in found.words) + found.end == pytest.approx(1)
    assert len(found.samples) == 3


def test_samples(call: Call, chain_run: Path) -> None:
    result = call("sample", chain_run, "--count", 4, "--max-length", 30)
    assert result.code == 0
    assert len(result.lines) == 4
    assert "<eos>" not in result.out  # ends each of them, and is not shown
    assert all(len(line.split()) < 30 for line in result.lines)
    drawn = simplepcfg.load(chain_run).sample(4, max_length=30)
    assert [" ".join(item.tree.words) for item in drawn.trees] == result.lines
    assert 0 < drawn.kept <= 1
    assert call("sample", chain_run, "--count", 2, "--trees").lines[0].startswith("(X (T-")


def test_tags_are_states(chain_run: Path) -> None:
    (words,) = simplepcfg.load(chain_run).tags(["the dog sees a cat"])
    assert all(word.tag in range(5) and 0 < word.probability <= 1 for word in words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["parse", "RUN", "TEXT"],
        ["parse", "RUN", "TEXT", "--decode", "viterbi"],
        ["parse", "RUN", "TEXT", "--decode", "viterbi", "--k", "2"],
        ["show", "RUN", "TEXT"],
        ["evaluate", "RUN", "OTHER", "TREES", "--ensemble"],
    ],
)
def test_what_needs_constituents_is_refused_in_one_line(
    call: Call, chain_run: Path, tiny_run: Path, text: Path, trees_file: Path, arguments: list[str]
) -> None:
    names: dict[str, object] = {"RUN": chain_run, "OTHER": tiny_run, "TEXT": text, "TREES": trees_file}
    result = call(*(names.get(item, item) for item in arguments))
    assert result.code == 2
    assert result.err.strip().count("\n") == 0 or result.err.strip().splitlines()[-1].startswith("error")
    assert "use an sn-pcfg" in result.err or "which has no span marginals; leave it out" in result.err
    assert "Traceback" not in result.err


def test_trees_give_perplexity_beside_the_f1_of_others(
    call: Call, chain_run: Path, tiny_run: Path, trees_file: Path
) -> None:
    result = call("evaluate", chain_run, tiny_run, trees_file, "--json", "-")
    assert result.code == 0
    chain, other = json.loads(result.out)
    assert chain["sentence_f1"] is chain["corpus_f1"] is None
    assert chain["sentences"] == other["sentences"] == 25
    assert chain["perplexity"] > 1
    assert other["sentence_f1"] > 0
    kind = simplepcfg.load(chain_run).config.model.kind
    assert f"{chain_run}: a model of kind {kind} has no trees; only its perplexity is shown\n" in result.err
    (shown,) = [line for line in call("evaluate", chain_run, tiny_run, trees_file).lines if "S-F1" in line]
    assert "–" in shown
    assert simplepcfg.load(chain_run).evaluate(trees_file).f1 is None


def test_questions_of_a_run(chain_run: Path) -> None:
    run = simplepcfg.load(chain_run)
    for ask in (
        run.entropy,
        run.span_marginals,
        run.parse,
        lambda text: run.k_best(text, 2),
        lambda text: run.sample_trees(text, 2),
    ):
        with pytest.raises(InputError, match="hmm has no"):
            ask(["the dog sees a cat"])
    with pytest.raises(InputError, match="a chain of states has no spans to constrain"):
        run.score(["the dog sees a cat"], [{"require": [[0, 2]]}])


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_without_eos_have_no_end(kind: str) -> None:
    with pytest.raises(InputError, match=f"data.eos = false; a model of kind {kind} ends sentences by"):
        load_config(None, [f"model.kind={kind}"], environment={})
    with pytest.raises(InputError, match=r"^override \"data.eos=false\": data.eos = false"):
        load_config(None, [f"model.kind={kind}", "data.eos=false"], environment={})


def test_a_run_goes_on_where_it_stopped(chain_run: Path, tmp_path: Path) -> None:
    config = simplepcfg.load(chain_run).config
    overrides = [f"model.kind={config.model.kind}", *SETTINGS, *KINDS[config.model.kind]]
    longer = load_config(None, [*overrides, "training.epochs=2"], environment={})
    straight = train(longer, tmp_path / "straight", train_text=tiny_sentences())
    train(load_config(None, overrides, environment={}), tmp_path / "split", train_text=tiny_sentences())
    resumed = train(longer, tmp_path / "split", train_text=tiny_sentences(), resume=True)
    assert (tmp_path / "split" / "metrics.jsonl").read_text() == (tmp_path / "straight" / "metrics.jsonl").read_text()
    assert resumed.epochs == straight.epochs
