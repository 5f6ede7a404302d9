"""The JSON interface gives what the Python interface gives."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import simplepcfg
from simplepcfg.inference.run import Run
from simplepcfg.serving.app import make_app

SENTENCE = "the old dog saw , the cat ."


def ask(client: TestClient, question: str, **body):
    answer = client.post(f"/api/{question}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_runs(client: TestClient) -> None:
    found = client.get("/api/runs").json()
    assert [item["name"] for item in found["runs"]] == ["tiny", "other"]
    assert found["runs"][0]["kind"] == "sn-pcfg"
    assert found["runs"][0]["nonterminals"] == 4
    assert "describe_symbol" in found["runs"][0]["questions"]
    assert "/" not in found["runs"][0]["name"]


@pytest.mark.parametrize("decode", ["mbr", "viterbi"])
@pytest.mark.parametrize("constraints", [None, {"forbid": [[0, 3]]}, {"require": [[0, 3]], "bonus": [[0, 2, 1.5]]}])
def test_parse(client: TestClient, run: Run, decode: str, constraints: dict | None) -> None:
    found = ask(client, "parse", run="tiny", sentence=SENTENCE, decode=decode, constraints=constraints, svg=True)
    (tree,) = run.parse_spans([SENTENCE], [constraints], decode=decode)
    assert found["tree"]["brackets"] == tree.to_brackets()
    assert found["tree"]["words"] == SENTENCE.split()
    assert found["tree"]["svg"].startswith("<svg")
    (score,) = run.score([SENTENCE], [constraints])
    assert found["log_probability"] == pytest.approx(score)
    (free,) = run.score([SENTENCE])
    assert found["share"] == pytest.approx(math.exp(score - free))


def test_score(client: TestClient, run: Run) -> None:
    found = ask(client, "score", sentence="the zebra")
    assert found["log_probability"] == pytest.approx(run.score(["the zebra"])[0])
    assert found["unknown"] == ["zebra"]
    assert ask(client, "score", sentence="dog")["log_probability"] is None  # no tree has one word


def test_typeset_marks_of_a_run_that_keeps_punctuation_are_known() -> None:
    sizes = {"model.nonterminals": 4, "model.preterminals": 8, "model.embedding": 8, "training.epochs": 1}
    run = simplepcfg.fit(['the dog said " no " .'] * 60, settings={**sizes, "data.punctuation": "keep"})
    with TestClient(make_app({"kept": run}, workers=1), base_url="http://localhost") as client:
        assert ask(client, "score", sentence="the dog said “ no ” .")["unknown"] == []


def test_chart(client: TestClient, run: Run) -> None:
    found = ask(client, "chart", sentence=SENTENCE, symbols=3, svg=True)
    chart = run.chart(SENTENCE, symbols=3)
    assert found["words"] == chart.words
    assert found["places"] == chart.places
    assert [span["probability"] for span in found["spans"]] == [span.probability for span in chart.spans]
    assert found["spans"][0]["symbols"][0]["symbol"] == chart.spans[0].symbols[0][0]
    assert found["svg"].count('class="cell"') == len(chart.spans)


def test_trees(client: TestClient, run: Run) -> None:
    found = ask(client, "k_best", sentence=SENTENCE, k=3)["trees"]
    (best,) = run.k_best([SENTENCE], 3)
    assert [tree["brackets"] for tree in found] == [scored.tree.to_brackets() for scored in best]
    assert found[0]["log_probability"] == pytest.approx(best[0].log_probability)
    drawn = ask(client, "sample_trees", sentence=SENTENCE, samples=4, seed=7)["trees"]
    (sampled,) = run.sample_trees([SENTENCE], 4, seed=7)
    assert [tree["brackets"] for tree in drawn] == [scored.tree.to_brackets() for scored in sampled]


def test_surprisal(client: TestClient, run: Run) -> None:
    found = ask(client, "surprisal", sentence=SENTENCE, svg=True)
    (records,) = run.surprisal([SENTENCE])
    assert [item["surprisal"] for item in found["words"]] == [record.surprisal for record in records]
    assert "<svg" in found["svg"]


@pytest.mark.parametrize("prefix", ["", "the old"])
def test_complete(client: TestClient, run: Run, prefix: str) -> None:
    found = ask(client, "complete", prefix=prefix, k=4)
    expected = run.complete(prefix, 4)
    assert [(item["word"], item["probability"]) for item in found["words"]] == expected.words
    assert found["end"] == expected.end


def test_describe_symbol(client: TestClient, run: Run) -> None:
    found = ask(client, "describe_symbol", run="other", symbol="NT-2")
    expected = run.describe_symbol("NT-2")
    assert [child["symbol"] for child in found["left"]] == [child.symbol for child in expected.left]
    assert [item["word"] for item in found["words"]] == [word for word, _ in expected.words]


def test_openapi_names_every_path_and_request(client: TestClient) -> None:
    from simplepcfg.serving.questions import QUESTIONS

    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {"/api/runs", *(f"/api/{question.name}" for question in QUESTIONS)}
    for question in QUESTIONS:
        assert callable(getattr(Run, question.name))  # the words of the Python interface
    references = set(_references(document))
    assert references
    for reference in references:
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def _references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def test_a_hidden_markov_model_has_scores_but_no_trees(tmp_path, run: Run) -> None:
    import simplepcfg
    from simplepcfg.serving.app import make_app
    from tiny_runs import tiny_sentences

    sizes = {"model.states": 4, "model.embedding": 8, "training.epochs": 1, "training.threads": 1}
    chain = simplepcfg.fit(tiny_sentences(30), config="hmm-4096", settings=sizes, device="cpu")
    client = TestClient(make_app({"chain": chain}, workers=1), base_url="http://localhost")
    assert client.get("/api/runs").json()["runs"][0]["questions"] == ["score", "surprisal", "complete"]
    assert ask(client, "score", sentence="the dog")["log_probability"] < 0
    answer = client.post("/api/parse", json={"sentence": "the dog"})
    assert answer.status_code == 400
    assert "has no trees" in answer.json()["error"]


@pytest.fixture(scope="module")
def tokenising(tmp_path_factory) -> Iterator[TestClient]:
    """Behind a run that takes sentences as they are written."""
    import simplepcfg
    from simplepcfg.serving.app import make_app
    from tiny_runs import make_tiny_run

    run = simplepcfg.load(make_tiny_run(tmp_path_factory.mktemp("served") / "raw", "data.tokenize=true"), "cpu")
    with TestClient(make_app({"raw": run}, workers=1), base_url="http://localhost") as client:
        yield client


WRITTEN = "Yesterday, the dog didn’t sleep 🙂 on the sofa."


def test_tokens_say_where_they_stand(tokenising: TestClient) -> None:
    tokens = ask(tokenising, "parse", sentence=WRITTEN)["tokens"]
    texts = [token["text"] for token in tokens]
    assert texts == ["Yesterday", ",", "the", "dog", "did", "n’t", "sleep", "🙂", "on", "the", "sofa", "."]
    assert [WRITTEN[token["start"] : token["end"]] for token in tokens] == texts
    assert [token["text"] for token in tokens if not token["used"]] == [",", "🙂", "."]
    assert ask(tokenising, "score", sentence=WRITTEN)["tokens"] == tokens
    unknown = [token["text"] for token in tokens if not token["known"]]
    assert "sofa" in unknown
    assert "the" not in unknown
    assert ask(tokenising, "score", sentence=WRITTEN)["unknown"] == unknown


def test_constraints_by_characters_hit_these_words(tokenising: TestClient) -> None:
    start = WRITTEN.index("the dog")
    asked = {"unit": "characters", "require": [[start, start + 7]]}
    by_words = ask(tokenising, "parse", sentence=WRITTEN, constraints={"require": [[2, 4]]})
    found = ask(tokenising, "parse", sentence=WRITTEN, constraints=asked)
    assert found == by_words
    assert [2, 4] in [span[:2] for span in found["tree"]["spans"]]
    forbidden = ask(
        tokenising, "parse", sentence=WRITTEN, constraints={"unit": "characters", "forbid": asked["require"]}
    )
    assert [2, 4] not in [span[:2] for span in forbidden["tree"]["spans"]]
    assert forbidden["share"] == pytest.approx(1 - found["share"], abs=1e-5)
    answer = tokenising.post(
        "/api/parse", json={"sentence": WRITTEN, "constraints": {**asked, "require": [[start, start + 5]]}}
    )
    assert answer.status_code == 400
    assert "no word begins or ends there" in answer.json()["error"]


def test_parse_without_scores(client: TestClient) -> None:
    found = ask(client, "parse", sentence=SENTENCE, scores=False)
    assert found["log_probability"] is None
    assert found["tree"] == ask(client, "parse", sentence=SENTENCE)["tree"]


def test_bracketings(client: TestClient, run: Run) -> None:
    found = ask(client, "bracketings", sentence=SENTENCE, k=4, svg=True)["bracketings"]
    expected = run.bracketings(SENTENCE, 4)
    assert [item["probability"] for item in found] == pytest.approx([item.probability for item in expected])
    assert len({item["tree"]["brackets"] for item in found}) == 4
    assert found[0]["tree"]["svg"].startswith("<svg")


def test_symbols_come_with_their_names(client: TestClient, run: Run) -> None:
    tree = ask(client, "parse", sentence=SENTENCE, decode="viterbi", svg=True)["tree"]
    assert tree["names"][tree["spans"][0][2]] == run.symbol_name(tree["spans"][0][2])
    (span, *_) = ask(client, "chart", sentence=SENTENCE, symbols=1)["spans"]
    assert span["symbols"][0]["name"] == run.symbol_name(span["symbols"][0]["symbol"])
    assert ask(client, "describe_symbol", symbol="NT-1")["name"] == run.symbol_name("NT-1")


def test_gold_labels_of_the_folder_are_names(tmp_path, folder: Path) -> None:
    import json
    import shutil

    copy = shutil.copytree(folder, tmp_path / "labelled")
    labels = {"format": "simplepcfg labels 1", "model": None, "phrases": {"NT-1": "NP"}, "tags": {"T-2": "DT"}}
    (copy / "labels.json").write_text(json.dumps(labels))
    client = TestClient(make_app({"one": simplepcfg.load(copy, "cpu")}, workers=1), base_url="http://localhost")
    assert ask(client, "describe_symbol", symbol="NT-1")["name"] == "NP"
    assert ask(client, "describe_symbol", symbol="T-2")["name"] == "DT"


def test_bars_with_the_axis_of_another_run(client: TestClient) -> None:
    plain = ask(client, "surprisal", sentence=SENTENCE, svg=True)
    wide = ask(client, "surprisal", sentence=SENTENCE, svg=True, most=1000)
    assert plain["words"] == wide["words"]
    assert ">1,000<" in wide["svg"]
    assert ">1,000<" not in plain["svg"]


def test_examples_have_words_that_the_run_knows(client: TestClient, run: Run) -> None:
    for described in client.get("/api/runs").json()["runs"]:
        assert described["examples"]
        for sentence in described["examples"]:
            unknown = ask(client, "score", run=described["name"], sentence=sentence)["unknown"]
            assert len(unknown) <= 1


def test_errors_do_not_number_the_only_sentence(client: TestClient) -> None:
    answer = client.post("/api/parse", json={"sentence": SENTENCE, "constraints": {"require": [[0, 2], [1, 3]]}})
    assert answer.status_code == 400
    assert "sentence 0" not in answer.json()["error"]
    assert "the sentence" in answer.json()["error"]
