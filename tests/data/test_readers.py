"""Files as they come: encodings, compression, blank lines; every failure is one line that names the file."""

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simplepcfg.data.readers import open_text, read_sentences, read_trees, sniff
from simplepcfg.errors import InputError
from tiny_runs import make_fifo


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["text.txt", "text.gz"])
def test_sentences(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "\ufeffa  b\tc\r\n\r\n  \nd é\n".encode())
    assert list(read_sentences(path)) == [["a", "b", "c"], ["d", "é"]]
    assert list(read_sentences(str(path), keep_blank=True)) == [["a", "b", "c"], [], [], ["d", "é"]]


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = write(tmp_path / "f", "a\u2028b\x0cc\nd".encode())
    assert list(open_text(path)) == ["a\u2028b\x0cc", "d"]


def test_an_empty_file(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"\n\n")
    with pytest.raises(InputError, match=r"f: no sentences; expected"):
        list(read_sentences(path))
    with pytest.raises(InputError, match=r"f: no trees; expected"):
        list(read_trees(path))
    assert list(read_sentences(path, keep_blank=True)) == [[], []]
    assert list(read_sentences(write(path, b""), keep_blank=True)) == []


@pytest.mark.parametrize("name", ["f.mrg", "f.gz"])
def test_trees(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"\n( (S (NP (NN a))\n  (VP (VB b)) ))\n( (FRAG (UH no)) )\n")
    assert [tree.words for tree in read_trees(path)] == [("a", "b"), ("no",)]


def test_tree_errors_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.trees", b"(T a)\n\n(S (A a)\n")
    with pytest.raises(InputError, match=r"bad\.trees:3: .* not closed"):
        list(read_trees(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f", b"ok\ncaf\xe9\n", r"f:2: byte 0xe9 is not UTF-8; save it as UTF-8"),
        (
            "f",
            "words".encode("utf-16"),
            r"f: is in UTF-16, not UTF-8; save it as UTF-8",
        ),
        ("f", b"\xff\xff", r"f:1: byte 0xff is not UTF-8; save it as UTF-8"),
        ("f", "words".encode("utf-16-le"), r"f:1: holds a NUL byte"),
        ("f", b"\x7fELF\x02\x00\xb7\n", r"f:1: is binary, not text; give a text file$"),
        ("f", gzip.compress(b"words", mtime=0), r"f:1: byte 0x8b is not UTF-8; it is compressed: name it \.gz$"),
    ],
)
def test_undecodable(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_sentences(write(tmp_path / name, content)))


def test_broken_gzip(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    whole = gzip.compress(os.urandom(3_000).hex().encode())
    for content in (whole[: len(whole) // 2], whole[:100] + bytes(100) + whole[200:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"f\.gz: not a whole gzip file.*compress it anew$"):
            list(read_sentences(path))
    path.write_bytes(b"plain text")
    with pytest.raises(InputError, match=r"f\.gz: is not compressed by gzip; name it without \.gz, or compress it$"):
        list(read_sentences(path))


@pytest.mark.parametrize("read", [open_text, read_sentences, read_trees, sniff])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_unreadable_files_fail_before_the_first_line(
    tmp_path: Path, read: Callable[[Path], object], suffix: str
) -> None:
    with pytest.raises(InputError, match=r"missing(\.gz)?: no such file; check the path$"):
        read(tmp_path / f"missing{suffix}")
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    with pytest.raises(InputError, match=r"folder(\.gz)?: is a directory; give a file in it$"):
        read(folder)


def test_permission_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)  # permissions do not bind root, who may run this test
    with pytest.raises(InputError, match=r"^f: permission denied; make the file readable$"):
        open_text("f")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("(S (NP a", "trees"),
        ("\n\n( (S", "trees"),
        ("(\n(S", "trees"),
        ("(NN word)\n", "trees"),
        ("(S\n  (NP (NN a)))", "trees"),
        ("a plain sentence", "text"),
        ("( he laughs ) and goes", "text"),
        ("(aside) he (", "text"),
        ("(he laughs) and goes", "text"),
        ("( he said )\nthe dog barks\n", "text"),
        ("( he said )\n( she said )\n", "text"),
        ("(he said)\nthe dog barks\n", "text"),
        ("(NN word)\n\n(S\n  (NN a)\n)\n", "trees"),
        ("(NN\n word)\n(NN word)", "trees"),
        ("", "text"),
    ],
)
def test_sniff(tmp_path: Path, text: str, kind: str) -> None:
    assert sniff(write(tmp_path / "f", b"\xef\xbb\xbf" + text.encode())) == kind


@pytest.mark.parametrize(("text", "answer"), [("(T a)\n", "trees 1"), ("a b\nc\n", "text 2")])
def test_standard_input_can_be_sniffed_and_then_read(text: str, answer: str) -> None:
    program = (
        "from simplepcfg.data.readers import *; kind = sniff('-');"
        "print(kind, len(list(read_trees('-') if kind == 'trees' else read_sentences('-'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer


def test_standard_input_is_named_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n")))
    with pytest.raises(InputError, match=r"^standard input:2: byte 0xff"):
        list(read_sentences("-"))


@pytest.mark.parametrize(("line", "kind"), [("(S (NN a) (NN b))", "trees"), ("the dog sees a cat", "text")])
def test_a_pipe_loses_nothing_when_it_is_sniffed(tmp_path: Path, line: str, kind: str) -> None:
    fifo = make_fifo(tmp_path / "pipe", f"\n{line}\n" * 20_000)
    assert sniff(fifo) == kind
    read: Callable[[Path], Iterator[object]] = read_trees if kind == "trees" else read_sentences
    assert len(list(read(fifo))) == 20_000


def test_a_short_pipe_keeps_its_blank_lines(tmp_path: Path) -> None:
    fifo = make_fifo(tmp_path / "pipe", "\na b\n\n")
    assert sniff(fifo) == "text"
    assert list(read_sentences(fifo, keep_blank=True)) == [[], ["a", "b"], []]
