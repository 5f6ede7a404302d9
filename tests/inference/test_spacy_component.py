"""The spaCy component: trees, labels and surprisal of every sentence of a document."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from simplepcfg import InputError, load
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


def test_sentences_that_become_documents_keep_their_own(run_folder: Path) -> None:
    from spacy.tokens import Doc

    doc = pipeline(run_folder)(TEXT)
    first, second = list(doc.sents)[:2]
    alone = second.as_doc(copy_user_data=True)
    assert alone[:]._.parse_string == second._.parse_string != first._.parse_string
    assert [token._.surprisal for token in alone] == [token._.surprisal for token in second]
    joined = Doc.from_docs([alone, doc])
    assert [sent._.parse_string for sent in joined.sents][:2] == [second._.parse_string, first._.parse_string]


def test_without_sentence_boundaries(run_folder: Path) -> None:
    nlp = pipeline(run_folder)
    nlp.remove_pipe("sentencizer")
    doc = nlp("The dog sees a cat")
    assert doc[:]._.parse_string == load(run_folder).parse_spans(["The dog sees a cat"])[0].to_brackets()


# The grammar has been used before the processes start, by all threads: the case in which a forked one used to hang.
SEVERAL_PROCESSES = """
import multiprocessing, sys
import spacy
from simplepcfg.inference import spacy_component

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("simplepcfg", config={"model": sys.argv[2]})
    texts = ["The old dog slept by the fire. It was cold.", "A cat sleeps."] * 2
    def facts(doc):
        surprisals = [round(token._.surprisal or 0, 3) for token in doc]
        return surprisals, [(sent._.parse_string, len(sent._.constituents)) for sent in doc.sents]
    alone = [facts(nlp(text)) for text in texts]
    assert [facts(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=2)] == alone
    print(alone[1])
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes(method: str, run_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    script = tmp_path / "several.py"
    script.write_text(SEVERAL_PROCESSES)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    # Only a large grammar has products that the threads of a forked process would be waited for.
    command = [sys.executable, str(script), method, "english" if method == "fork" else str(run_folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stderr
    assert "cat)" in done.stdout  # a tree


def test_a_saved_pipeline_has_its_grammar(run_folder: Path, tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    folder = tmp_path / "moved"
    nlp = pipeline(make_tiny_run(folder), surprisal=False)
    expected = [sent._.parse_string for sent in nlp(TEXT).sents]
    content = nlp.to_bytes()
    for _ in range(2):  # the second time over the first
        nlp.to_disk(tmp_path / "saved")
    rmtree(folder)
    again = spacy.load(tmp_path / "saved")
    assert [sent._.parse_string for sent in again(TEXT).sents] == expected
    again.to_disk(tmp_path / "saved")  # over the folder that it was loaded from
    assert [sent._.parse_string for sent in spacy.load(tmp_path / "saved")(TEXT).sents] == expected
    assert sorted(path.name for path in (tmp_path / "saved").iterdir() if path.name.startswith("tmp")) == []
    other = pipeline(folder, surprisal=False).from_bytes(content)
    assert [sent._.parse_string for sent in other(TEXT).sents] == expected
    assert other.get_pipe("simplepcfg").run.directory is None
    parser = pickle.loads(pickle.dumps(other.get_pipe("simplepcfg")))
    assert (parser.run.parse_spans(["a cat sleeps"]), parser.surprisal) == (
        load(run_folder).parse_spans(["a cat sleeps"]),
        False,
    )


def test_bytes_with_a_path_are_refused(run_folder: Path) -> None:
    import srsly

    parser = pipeline(run_folder).get_pipe("simplepcfg")
    with pytest.raises(InputError, match="no file of a run"):
        parser.from_bytes(srsly.msgpack_dumps({"../model.safetensors": b""}))


def test_a_missing_grammar_is_named_at_the_first_document(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        pipeline(tmp_path / "missing")("The dog sees a cat.")


def test_documents_keep_their_trees_as_bytes(run_folder: Path) -> None:
    from spacy.tokens import Doc

    nlp = pipeline(run_folder)
    doc = nlp(TEXT)
    copy = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [sent._.parse_string for sent in copy.sents] == [sent._.parse_string for sent in doc.sents]
    assert [token._.surprisal for token in copy] == [token._.surprisal for token in doc]
