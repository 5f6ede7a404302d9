"""Runs that keep punctuation: a comma makes a difference, and marks may be written otherwise than in the text."""

from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg import ensemble, fit
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.inference.run import Run
from simplepcfg.linguistics.regions import region_surprisals
from simplepcfg.linguistics.word_model import with_known_marks
from simplepcfg.runs.config.schema import DataConfig

AMBIGUOUS = ["While the man", "hunted", "the deer", "ran", "into the woods."]
COMMA = ["While the man", "hunted,", "the deer", "ran", "into the woods."]
TEXT = [
    'While the man hunted , the deer ran -- " quickly " -- into the woods .',
    "The man hunted the deer ( in the woods ) .",
    "The deer ran , the man hunted ...",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    sizes = {"model.nonterminals": 4, "model.preterminals": 8, "model.embedding": 8, "training.epochs": 1}
    kept = {"data.punctuation": "keep", "data.tokenize": True}
    return fit(TEXT * 20, settings={**sizes, **kept}, out=tmp_path_factory.mktemp("runs") / "kept")


def test_a_comma_changes_surprisals(run: Run) -> None:
    ambiguous, comma = region_surprisals(run, [AMBIGUOUS, COMMA])
    assert comma[1].tokens == ("hunted", ",")
    assert ambiguous[0].surprisal == comma[0].surprisal
    assert all(one.surprisal != other.surprisal for one, other in zip(ambiguous[2:], comma[2:], strict=True))


def test_the_usual_mark_is_taken(run: Run) -> None:
    words = ["<pad>", "<unk>", '"', "no", "“", "”", "—", "--"]
    usual = Run(run.model, Vocabulary(words), run.config)
    assert with_known_marks(usual, ["“", "no", "”", "--", "("]) == ['"', "no", '"', "—", "("]
    dropped = Run(run.model, Vocabulary(words), run.config.model_copy(update={"data": DataConfig()}))
    assert with_known_marks(dropped, ["“", "no", "”", "--"]) == ["“", "no", "”", "--"]


def test_other_marks_are_those_of_the_text(run: Run, call: Call, tmp_path: Path) -> None:
    plain = 'The deer ran -- "quickly" -- (into the woods)...'
    typeset = "The deer ran — “quickly” – (into the woods)…"
    penn = ["The", "deer", "ran", "--", "``", "quickly", "''", "--", "-LRB-", "into", "the", "woods", "-RRB-", "..."]
    assert run.score([plain]) == run.score([typeset]) == run.score([penn])
    (records,) = run.surprisal([typeset])
    assert [(record.word, record.token) for record in records[3:7]] == [
        ("—", "--"),
        ("“", '"'),
        ("quickly", "quickly"),
        ("”", '"'),
    ]
    assert " ".join(run.parse([typeset])[0].leaves()) == "The deer ran — “ quickly ” – ( into the woods ) …"
    assert [tree.spans for tree in ensemble([run, run]).parse_spans([plain])] == [
        tree.spans for tree in ensemble([run, run]).parse_spans([typeset])
    ]
    result = call("score", run.directory, stdin=f"{typeset}\n")
    assert "not in the vocabulary" not in result.err
    assert float(result.out) == pytest.approx(run.score([plain])[0], abs=1e-4)
    trigram = tmp_path / "trigram.safetensors"
    assert call("baseline", "ngram", "--like", run.directory, "--train", "-", "--out", trigram, stdin=TEXT[0]).code == 0
    assert call("score", trigram, stdin=f"{typeset}\n").out == call("score", trigram, stdin=f"{plain}\n").out
