"""CoNLL-U: its words are read wherever sentences are; it has no trees."""

import gzip
from pathlib import Path

import pytest

from simplepcfg.data.conllu import ConlluSentence, parse_conllu
from simplepcfg.data.readers import read_sentences, read_trees
from simplepcfg.errors import InputError

REST = "\t_" * 8
TEXT = f"""# newdoc
# sent_id = a-1
# text = I don't.
1\tI{REST}
2-3\tdon't{REST}
2\tdo{REST}
3\tn't{REST}
3.1\tsleep{REST}
4\t.{REST}

# sent_id = a-2
1\tNew York{REST}
"""
SENTENCES = [["I", "do", "n't", "."], ["New_York"]]


def test_words_ids_and_text() -> None:
    found = list(parse_conllu(TEXT.split("\n"), "file"))
    assert found == [
        ConlluSentence(SENTENCES[0], "a-1", "I don't."),
        ConlluSentence(SENTENCES[1], "a-2", None),
    ]


@pytest.mark.parametrize("name", ["words.conllu", "words.txt", "words.conllu.gz"])
def test_recognised_by_name_or_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT.encode()) if name.endswith(".gz") else TEXT.encode())
    assert list(read_sentences(path)) == SENTENCES
    assert list(read_sentences(path, raw=True, keep_blank=True)) == SENTENCES


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1\tdog", "2 columns where CoNLL-U has 10"),
        (f"x\tdog{REST}", "'x' is no number of a word"),
        (f"1\t {REST}", "a word without a form"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "words.conllu"
    path.write_text(f"1\tthe{REST}\n{line}\n")
    with pytest.raises(InputError, match=f"words.conllu:2: {problem}"):
        list(read_sentences(path))


def test_it_has_no_trees(tmp_path: Path) -> None:
    path = tmp_path / "words.conllu"
    path.write_text(TEXT)
    with pytest.raises(InputError, match=r"is CoNLL-U, .*; it has no constituents"):
        list(read_trees(path))
