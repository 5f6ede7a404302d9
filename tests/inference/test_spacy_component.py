"""The spaCy component: trees, labels and surprisal of every sentence of a document."""

from pathlib import Path
from typing import Any

import pytest

from simplepcfg import load
from tiny_runs import make_tiny_run

pytestmark = pytest.mark.peer

TEXT = "The dog sees a cat.  The man sleeps!"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_run(tmp_path_factory.mktemp("spacy") / "run")


def pipeline(run_folder: Path, **options: Any) -> Any:
    spacy = pytest.importorskip("spacy")
    from simplepcfg.inference import spacy_component  # noqa: F401 (registers the factory without an installation)

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("simplepcfg", config={"model": str(run_folder), **options})
    return nlp


def test_trees_and_surprisal(run_folder: Path) -> None:
    doc = pipeline(run_folder)(TEXT)
    run = load(run_folder)
    words = [["The", "dog", "sees", "a", "cat", "."], ["The", "man", "sleeps", "!"]]
    trees = run.parse_spans(words)
    assert [sent._.parse_string for sent in doc.sents] == [tree.to_brackets() for tree in trees]
    for sent, tree, records in zip(doc.sents, trees, run.surprisal(words), strict=True):
        tokens = [token for token in sent if not token.is_space]
        found = [span.text for span in sent._.constituents]
        assert found[0].split() == sent.text.split()
        assert len(found) == len(tree.spans)
        assert [token._.surprisal for token in tokens] == [record.surprisal for record in records[: len(tokens)]]
        assert tokens[-1]._.surprisal is None
        whole = doc[tokens[0].i : tokens[-1].i + 1]
        assert whole._.labels == ("X",)
    assert doc[1:3]._.labels in ((), ("X",))


def test_labels_of_the_most_probable_tree(run_folder: Path) -> None:
    doc = pipeline(run_folder, decode="viterbi", surprisal=False)(TEXT)
    labels = [span.label_ for sent in doc.sents for span in sent._.constituents]
    assert labels
    assert all(label.startswith("NT-") or label == "X" for label in labels)
    assert doc[0]._.surprisal is None


def test_documents_in_batches(run_folder: Path) -> None:
    nlp = pipeline(run_folder)
    texts = [TEXT, "A cat sleeps.", "", "   "]
    together = [[sent._.parse_string for sent in doc.sents] for doc in nlp.pipe(texts, batch_size=2)]
    assert together[:2] == [[sent._.parse_string for sent in nlp(text).sents] for text in texts[:2]]
    assert together[2] == []


def test_without_sentence_boundaries(run_folder: Path) -> None:
    nlp = pipeline(run_folder)
    nlp.remove_pipe("sentencizer")
    doc = nlp("The dog sees a cat")
    assert doc[:]._.parse_string == load(run_folder).parse_spans(["The dog sees a cat"])[0].to_brackets()
