"""Which files belong to which split, and how they are decoded."""

import gzip
from pathlib import Path

import pytest

from simplepcfg.data.readers import open_text
from simplepcfg.data.treebank_files import (
    chinese_encoding,
    find_ctb,
    find_ptb,
    find_spmrl,
    find_trees,
    language_of,
    parse_ranges,
    split_of,
    without_sgml,
)
from simplepcfg.errors import InputError


def fill(folder: Path, *names: str, content: str = "(S (NN a) (NN b))\n") -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def shown(files: list[tuple[str | None, Path]]) -> list[tuple[str | None, str]]:
    return [(split, path.name) for split, path in files]


def test_ptb(tmp_path: Path) -> None:
    names = ["23/wsj_2300.mrg", "02/wsj_0200.mrg", "21/wsj_2199.mrg", "22/wsj_2200.mrg", "24/wsj_2400.mrg", "README"]
    fill(tmp_path / "mrg/wsj", *names)
    fill(tmp_path / "prd/wsj", "02/wsj_0200.prd", "03/wsj_0301.prd")
    source = find_ptb([tmp_path])
    assert shown(source.files) == [
        ("train", "wsj_0200.mrg"),
        ("train", "wsj_0301.prd"),
        ("train", "wsj_2199.mrg"),
        ("valid", "wsj_2200.mrg"),
        ("test", "wsj_2300.mrg"),
    ]
    assert source.notes == ["1 of 6 files are in no split"]
    swapped = find_ptb([tmp_path], {"train": "2", "valid": "24", "test": "23"})
    assert [path.name for _, path in swapped.files] == ["wsj_0200.mrg", "wsj_2400.mrg", "wsj_2300.mrg"]
    with pytest.raises(InputError, match="section 23 is in train and test"):
        find_ptb([tmp_path], {"train": "2-23", "valid": "24", "test": "23"})
    fill(tmp_path / "copy", "wsj_0200.mrg")
    with pytest.raises(InputError, match="has the same name"):
        find_ptb([tmp_path])


def test_ptb_of_one_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file named such as wsj_0200\.mrg"):
        find_ptb([tmp_path])
    with pytest.raises(InputError, match=r"1 files, none of sections 2-21 \(train\)"):
        find_ptb([fill(tmp_path, "wsj_0001.mrg")])
    with pytest.raises(InputError, match="no such file or folder"):
        find_ptb([tmp_path / "missing"])


def test_ctb(tmp_path: Path) -> None:
    numbers = ["001", "270", "271", "300", "301", "325", "400", "440", "1151", "1152"]
    fill(tmp_path, *(f"chtb_{number}.fid" for number in numbers), "chtb_001.fid.seg", "chtb_001.raw")
    source = find_ctb([tmp_path])
    assert [(split, path.stem[5:]) for split, path in source.files] == [
        *[("train", number) for number in ("001", "270", "440", "1151")],
        *[("valid", number) for number in ("301", "325")],
        *[("test", number) for number in ("271", "300")],
    ]
    assert source.notes == ["2 of 10 files are in no split"]
    fill(tmp_path / "utf8", "chtb_0001.fid")
    with pytest.raises(InputError, match="has the same number"):
        find_ctb([tmp_path])


def test_spmrl(tmp_path: Path) -> None:
    fill(tmp_path, "gold/ptb/train/train.German.gold.ptb", "gold/ptb/train5k/train5k.German.gold.ptb")
    fill(tmp_path, "gold/ptb/dev/dev.German.gold.ptb", "gold/ptb/test/test.German.gold.ptb")
    fill(tmp_path, "pred/ptb/dev/dev.German.pred.ptb")
    source = find_spmrl([tmp_path])
    names = ["train.German.gold.ptb", "dev.German.gold.ptb", "test.German.gold.ptb"]
    assert shown(source.files) == list(zip(("train", "valid", "test"), names, strict=True))
    assert language_of(source.files) == "german"
    assert "2 files left out" in source.notes[0]
    (tmp_path / "gold/ptb/train/train.German.gold.ptb").unlink()
    assert find_spmrl([tmp_path]).files[0][1].name == "train5k.German.gold.ptb"
    fill(tmp_path, "gold/ptb/dev/dev.French.gold.ptb")
    with pytest.raises(InputError, match="one language at a time"):
        language_of(find_spmrl([tmp_path]).files)
    assert language_of([(None, Path("a.ptb"))]) is None


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.trees", "train"),
        ("ptb.valid.txt", "valid"),
        ("wsj-dev.mrg.gz", "valid"),
        ("en_ewt-test.trees", "test"),
        ("training.txt", "train"),
        ("Val.txt", "valid"),
        ("latest.trees", None),
        ("contrain.trees", None),
        ("devices.trees", None),
    ],
)
def test_names_of_splits(name: str, split: str | None) -> None:
    assert split_of(Path(name)) == split
    assert split_of(Path("train", name), Path(".")) == (split or "train")


def test_folders_of_trees(tmp_path: Path) -> None:
    fill(tmp_path, "train/a.trees", "train/b.trees", "dev.trees", ".hidden.trees", "notes.md")
    fill(tmp_path, "LICENSE.txt", content="Words, words.\n")
    source = find_trees([tmp_path])
    assert shown(source.files) == [("train", "a.trees"), ("train", "b.trees"), ("valid", "dev.trees")]
    assert "LICENSE.txt: left out" in source.notes[0]
    fill(tmp_path, "more.trees")
    with pytest.raises(InputError, match=r"more\.trees: its name says no split"):
        find_trees([tmp_path])
    assert shown(find_trees([tmp_path / "more.trees"]).files) == [(None, "more.trees")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file of trees"):
        find_trees([tmp_path / "empty"])


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-3"])
def test_bad_ranges(text: str) -> None:
    with pytest.raises(InputError, match="no range of numbers"):
        parse_ranges(text)


FID = """<DOC>
<DOCID> chtb_001.fid </DOCID>
<HEADER>
<DATE>x</DATE> (1998-01-02)
</HEADER>
<BODY>
<S ID=1>
( (IP (NP-SBJ (NR 上海)) (VP (VV 开放)) (PU 。)))
</S>
</BODY>
</DOC>"""


@pytest.mark.parametrize("encoding", ["utf-8", "gb2312", "gb18030"])
def test_chinese_files(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "chtb_001.fid"
    path.write_bytes(FID.replace("\n", "\r\n").encode(encoding))
    for name in (chinese_encoding(path), encoding):
        lines = list(without_sgml(open_text(path, encoding=name)))
        assert len(lines) >= 11
        assert [(number, line) for number, line in enumerate(lines, start=1) if line] == [
            (8, "( (IP (NP-SBJ (NR 上海)) (VP (VV 开放)) (PU 。)))")
        ]


def test_sentences_on_the_line_of_their_tags() -> None:
    lines = ["<S ID=1> (T a) </S>", "<S ID=2>(S (T b)", "(T c))</S>", "<P>", "(T <b>)"]
    assert [line.strip() for line in without_sgml(lines)] == ["(T a)", "(S (T b)", "(T c))", "", "(T <b>)"]


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("é\nü".encode("latin-1")))
    assert list(open_text(path, encoding="latin-1")) == ["é", "ü"]
    with pytest.raises(InputError, match=r"a\.txt\.gz:1: byte 0xe9 is not ascii"):
        list(open_text(path, encoding="ascii"))
    path.write_bytes(gzip.compress(b"a\n\0b"))
    with pytest.raises(InputError, match=r"a\.txt\.gz:2: holds a NUL byte"):
        list(open_text(path, encoding="latin-1"))
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="is not compressed by gzip"):
        list(open_text(path, encoding="latin-1"))
