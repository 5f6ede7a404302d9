"""Twenty formats and encodings: each is read, or refused in one line that names it."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from command_calls import Call

REST = "\t_" * 8
SENTENCE = "the dog sleeps"


def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as stream:
        stream.writestr("word/document.xml", "<w:document/>")
    return content.getvalue()


READ = {
    "plain.txt": SENTENCE.encode(),
    "no_newline.txt": SENTENCE.encode() + b"\n",
    "windows_lines.txt": SENTENCE.encode() + b"\r\n",
    "byte_order_mark.txt": b"\xef\xbb\xbf" + SENTENCE.encode(),
    "compressed.txt.gz": gzip.compress(SENTENCE.encode()),
    "trees.mrg": b"( (S (NP (DT the) (NN dog)) (VP (VBZ sleeps))) )",
    "trees_over_lines.trees": b"(S\n  (NP (DT the)\n (NN dog))\n (VP (VBZ sleeps)))",
    "words.conllu": "".join(f"{i}\t{w}{REST}\n" for i, w in enumerate(SENTENCE.split(), 1)).encode(),
    "conllu_by_content.txt": (
        "# text = x\n" + "".join(f"{i}\t{w}{REST}\n" for i, w in enumerate(SENTENCE.split(), 1))
    ).encode(),
    "conllu.conllu.gz": gzip.compress("".join(f"{i}\t{w}{REST}\n" for i, w in enumerate(SENTENCE.split(), 1)).encode()),
}
REFUSED = {
    "latin1.txt": (b"the caf\xe9 sleeps", "byte 0xe9 is not UTF-8"),
    "utf16.txt": (SENTENCE.encode("utf-16"), "is in UTF-16, not UTF-8"),
    "zeros.txt": (b"the \0 dog", "NUL byte"),
    "page.html": (b"<!DOCTYPE html>\n<p>the dog</p>", "XML or HTML"),
    "line.html": (b"<html><p>the dog</p></html>", "XML or HTML"),
    "corpus.xml": (b'<?xml version="1.0"?>\n<corpus/>', "XML or HTML"),
    "records.jsonl": (b'{"text": "the dog"}\n', "JSON"),
    "document.docx": (archive(), "office document"),
    "document.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "office document"),
    "paper.pdf": (b"%PDF-1.7\n", "PDF"),
    "letter.rtf": (b"{\\rtf1 the dog}", "rich text"),
    "packed.bz2": (b"BZh91AY&SY", "compressed, but not by gzip"),
    "bad.conllu": (f"1\tthe{REST}\n2\tdog\n".encode(), "CoNLL-U has 10"),
}


def test_there_are_twenty() -> None:
    assert len(READ) + len(REFUSED) >= 20


@pytest.mark.parametrize("name", READ)
def test_read(call: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(READ[name])
    result = call("parse", "right-branching", tmp_path / name)
    assert (result.code, result.err) == (0, "")
    assert result.lines == ["(X (T the) (X (T dog) (T sleeps)))"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(call: Call, tmp_path: Path, name: str) -> None:
    content, reason = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    result = call("parse", "right-branching", tmp_path / name)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert name in result.err
    assert reason in result.err
