"""What is neither text nor trees is refused by name, and what only looks a little like it is read."""

import gzip
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simplepcfg.data import readers
from simplepcfg.data.formats import CONLLU, JSON, MOST_HELD, XML, recognise_lines, refuse_other_formats
from simplepcfg.data.readers import open_text, read_sentences, read_trees, sniff
from simplepcfg.data.treebank_files import find_trees
from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config

WORDS = "\n".join(f"{i}\t{word}\t{word}\tNOUN\tNN\t_\t0\troot\t_\t_" for i, word in enumerate(["a", "dog"], 1))


def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as stream:
        stream.writestr("word/document.xml", "<w:document/>")
    return content.getvalue()


OTHERS = {
    "CoNLL-U": [
        WORDS.encode(),
        f"# sent_id = 1\n# text = a dog\n{WORDS}\n\n".encode(),
        f"# newdoc\n\n{WORDS.replace('1', '1-2', 1)}\n".encode(),
        f"# source = a book\n{WORDS}".encode(),
        f"# text = a dog\n# a free comment\n{WORDS}".encode(),
        "".join(f"# note-{k} = x\n" for k in range(50)).encode() + WORDS.encode(),
    ],
    "XML": [
        b'<?xml version="1.0"?>\n<corpus>',
        b"\n<!DOCTYPE html>\n",
        b"<html><p>the dog</p></html>",
        b'<TEI xmlns="x">\n',
        b"<svg>\n",
        b"<DOC>\n<S ID=1>\n",
    ],
    "JSON": [
        b'{"text": "the dog"}\n{"text": "a cat"}',
        b'{\n  "sentences": [',
        b'[\n  {\n    "words"',
        b'[["the", "dog"]]',
        b'["the dog barks", "a cat"]',
    ],
    "zip": [archive()],
    "office": [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100],
    "PDF": [b"%PDF-1.7\n%\xe2\xe3"],
    "rich text": [b"{\\rtf1\\ansi the dog}"],
    "gzip": [b"BZh91AY&SY", b"\xfd7zXZ\x00\x00\x04", b"\x28\xb5\x2f\xfd\x04"],
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in OTHERS for content in OTHERS[name]])
@pytest.mark.parametrize("read", [read_sentences, read_trees])
def test_other_formats_are_refused_by_name(tmp_path: Path, name: str, content: bytes, read) -> None:
    if name == "CoNLL-U" and read is read_sentences:
        return  # it has words, which are read: see test_conllu.py
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"file.txt: is .*{name}.*; "):
        list(read(path))


@pytest.mark.parametrize(
    "text",
    [
        "# 1 is the best\nthe dog",
        "# text is here",
        "<unk> the dog",
        "<s>\nthe dog",
        "< the dog >",
        "[ laughter ] yes",
        '[ " no " ]',
        "{ a set }",
        "1\tthe\tdog",
        "\t".join(["1", *["the"] * 9]),
        "# text = a",
        "# text = a\n# a free comment",
        "# text = a\nthe dog",
        "# text = a\n" * 2000,
        "(NN dog)",
        "PK the dog",
        "",
    ],
)
def test_text_is_text(text: str) -> None:
    assert recognise_lines(text.split("\n")) is None
    assert list(refuse_other_formats(iter(text.split("\n")), "f")) == text.split("\n")


def test_text_that_looks_like_conllu_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    for lines in (
        ["# text = a"],
        ["# text = a"] * 30_000,
        ["# text = a", "the dog"],
        ["\t".join(["1", *["the"] * 9]), "a"],
    ):
        path.write_text("\n".join(lines))
        assert list(read_sentences(path, keep_blank=True)) == [line.split() for line in lines]


def test_conllu_that_turns_into_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text(f"{WORDS}\nthe dog barks\n")
    with pytest.raises(InputError, match=r"file.txt:3: 1 columns where CoNLL-U has 10"):
        list(read_sentences(path))


def test_blank_lines_are_not_held(tmp_path: Path) -> None:
    def blank() -> Iterator[str]:
        yield from [""] * MOST_HELD
        raise AssertionError("held too many")

    assert next(refuse_other_formats(blank(), "f")) == ""
    path = tmp_path / "file"
    path.write_text("\n" * (2 * MOST_HELD) + "(NN dog)\n")
    assert sniff(path) == "text"
    assert len(list(read_sentences(path, keep_blank=True))) == 2 * MOST_HELD + 1


def test_formats_by_lines() -> None:
    assert recognise_lines(["", WORDS.split("\n")[0]]) is CONLLU
    assert recognise_lines(["<html>"]) is XML
    assert recognise_lines(['{"a": 1}']) is JSON


def test_a_sentence_is_passed_on_before_the_next_is_read() -> None:
    def lines() -> Iterator[str]:
        yield ""
        yield "the dog"
        raise AssertionError("read too far")

    found = refuse_other_formats(lines(), "keyboard")
    assert (next(found), next(found)) == ("", "the dog")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("(the dog)\n(a cat)\n", "text"),
        ("(the dog)\n\n(A cat)\n", "text"),
        ("(NN dog)\n(NN cat)\n", "trees"),
        ("(nn dog)\n(s (nn cat))\n", "trees"),
        ("(X dog)\n", "trees"),
    ],
)
def test_words_in_brackets_are_text(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    assert sniff(path) == kind


def test_a_bomb_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.gz"
    monkeypatch.setattr(readers, "LEAST_EXPANDED_BYTES", 100_000)
    with gzip.open(path, "wb") as stream:
        stream.write(b"the dog\n" * 1_000_000)
    with pytest.raises(InputError, match=r"bomb.gz:\d+: expands to more than 200 times its size"):
        list(open_text(path))
    with pytest.raises(InputError, match=r"bomb.gz:\d+: expands to more than 200 times its size"):
        list(open_text(path, encoding="latin-1"))


def test_a_line_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_LINE_BYTES", 1 << 20)
    path = tmp_path / "one-line.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(b"x" * (2 << 20))
    for endless in (path, "/dev/zero"):
        with pytest.raises(InputError, match=r":1: a line of more than 1 MiB"):
            list(open_text(endless))


def test_a_device_is_no_configuration() -> None:
    with pytest.raises(InputError, match="/dev/zero: more than 16 MiB"):
        load_config("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_in_a_folder_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.txt")
    (tmp_path / "train.trees").write_text("(NN dog)\n")
    assert [path.name for _, path in find_trees([tmp_path]).files] == ["train.trees"]
