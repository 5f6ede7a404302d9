"""The command on files of each treebank's own format, and training on what it writes."""

import json
import tomllib
from pathlib import Path

import pytest

from command_calls import Call
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.runs.config.files import load_config
from tiny_runs import SETTINGS, short_trees

WSJ = """
( (S
    (NP-SBJ-1 (NNP Mr.) (NNP Vinken) )
    (VP (VBZ is)
      (S (NP-SBJ (-NONE- *-1) ) (VP (TO to) (VP (VB pay) (NP ($ $) (CD 1.5) (CD million) (-NONE- *U*) )))))
    (. .) ))
"""
FID = """<DOC>
<DOCID>{number}</DOCID>
<BODY>
<S ID={number}>
( (IP-HLN (NP-SBJ (NR 上海) (NN-SHORT 浦东)) (VP (VV 开发) (NP-OBJ (-NONE- *pro*))) (PU ，) (CD １２) (CD 3)))
</S>
</BODY>
</DOC>
"""
GERMAN = "(VROOT##_## (S##_## (NP-SB##_## (ART-NK##c=nom## Die) (NN-NK##_## Zahl)) (VVFIN-HD##_## steigt)) ($.-- .))\n"
FRENCH = "( (SENT (NP-SUJ (DET##g=f## La) (NC##g=f## hausse)) (VN (V##n=s## continue)) (PONCT##s=s## .)))\n"


def write(folder: Path, name: str, content: str, encoding: str = "utf-8") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding=encoding)


def test_ptb(call: Call, tmp_path: Path) -> None:
    for section in (0, 2, 21, 22, 23):
        write(tmp_path / "wsj", f"{section:02}/wsj_{section:02}01.mrg", WSJ)
    write(tmp_path / "wsj", "03/wsj_0301.mrg", "\n")
    outcome = call("prepare", "ptb", tmp_path / "wsj", "--out", tmp_path / "out")
    assert outcome.code == 0
    assert (tmp_path / "out" / "train.txt").read_text() == "mr. vinken is to pay N million\n" * 2
    tree = "(S (NP (NNP mr.) (NNP vinken)) (VP (VBZ is) (S (VP (TO to) (VP (VB pay) (NP (CD N) (CD million)))))))\n"
    assert (tmp_path / "out" / "test.trees").read_text() == tree
    assert "train: 2 sentences, 14 words, from 2 trees in 2 files" in outcome.err
    assert "PTB-3 has 39,832 trees here, not 2" in outcome.err
    assert "dropped 8 traces" in outcome.err
    assert "dropped 4 constituents without words" in outcome.err
    assert "dropped 8 leaves by tag: $ 4  . 4" in outcome.err
    assert "1 of 6 files are in no split" in outcome.err
    assert "dropped 1 files without trees" in outcome.err
    described = tomllib.loads((tmp_path / "out" / "prepared.toml").read_text())
    assert described["numbers"] == {"train": "2-21", "valid": "22", "test": "23"}


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_ctb(call: Call, tmp_path: Path, encoding: str) -> None:
    for number in ("001", "271", "301", "400"):
        write(tmp_path / "bracketed", f"chtb_{number}.fid", FID.format(number=int(number)), encoding)
    outcome = call("prepare", "ctb", tmp_path, "--out", tmp_path / "out")
    assert outcome.code == 0
    tree = "(IP (NP (NR 上海) (NN 浦东)) (VP (VV 开发)) (CD １２) (CD N))\n"
    assert (tmp_path / "out" / "valid.trees").read_text(encoding="utf-8") == tree
    assert "dropped 3 leaves by tag: PU 3" in outcome.err


@pytest.mark.parametrize(
    ("language", "tree", "written"),
    [
        ("German", GERMAN, "(VROOT (S (NP (ART die) (NN zahl)) (VVFIN steigt)))\n"),
        ("French", FRENCH, "(SENT (NP (DET la) (NC hausse)) (VN (V continue)))\n"),
    ],
)
def test_spmrl(call: Call, tmp_path: Path, language: str, tree: str, written: str) -> None:
    files = [tmp_path / f"{split}.{language}.gold.ptb" for split in ("train", "dev", "test")]
    for path in files:
        path.write_text(tree)
    outcome = call("prepare", "spmrl", *files, "--out", tmp_path / "out")
    assert outcome.code == 0
    assert (tmp_path / "out" / "valid.trees").read_text() == written


def test_spmrl_of_another_language(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "train.Polish.gold.ptb", "(S (subst Kot) (fin śpi) (interp .))\n")
    outcome = call("prepare", "spmrl", tmp_path, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert "give --language, --drop-tags or --keep-tags" in outcome.err
    assert call("prepare", "spmrl", tmp_path, "--out", tmp_path / "out", "--drop-tags", "interp").code == 0
    assert (tmp_path / "out" / "train.txt").read_text(encoding="utf-8") == "kot śpi\n"


def test_every_convention_is_a_switch(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "train.trees", "(S (NP-SBJ (NNP Ann)) (HYPH -) (CD 7) (. .))\n")
    switches = ["--keep-tags", "penn HYPH", "--keep-tags", ".", "--keep-case", "--numbers", "keep", "--min-count", "1"]
    switches += ["--vocabulary", "2"]
    outcome = call("prepare", "brackets", tmp_path, "--out", tmp_path / "out", *switches)
    assert outcome.code == 0
    assert (tmp_path / "out" / "train.trees").read_text() == "(S (NP (NNP Ann)) (HYPH -) (CD 7) (. .))\n"
    described = tomllib.loads((tmp_path / "out" / "prepared.toml").read_text())
    assert described["conventions"] == {
        "punctuation": "tags",
        "keep_tags": ["penn", "HYPH", "."],
        "drop_tags": [],
        "lowercase": False,
        "numbers": "keep",
        "vocabulary_size": 2,
        "min_count": 1,
    }


def test_train_and_evaluate_on_it(call: Call, tmp_path: Path) -> None:
    for seed, name in enumerate(("train", "dev", "test")):
        lines = [f"(TOP {tree.to_brackets()} (NN %) (. .))\n" for tree in generate_treebank(40, seed=seed)]
        write(tmp_path / "trees", f"{name}.trees", "".join(lines))
    out = tmp_path / "out"
    outcome = call("prepare", "brackets", tmp_path / "trees", "--out", out)
    settings = [f"--set={name}" for name in SETTINGS if not name.startswith("data.")]
    command = outcome.err.splitlines()[-1].partition("simplepcfg ")[2].split()
    assert command[:2] == ["train", "demo"]  # so few trees are for a toy
    run = tmp_path / "run"
    assert call(*command, *settings, "--out", run, "--device", "cpu", "-q").code == 0
    assert Vocabulary.load(run / "vocabulary.txt") == Vocabulary.load(out / "vocabulary.txt")
    outcome = call("evaluate", run, "right-branching", out / "test.trees", "--device", "cpu")
    assert outcome.code == 0
    words = len((out / "test.txt").read_text().split())
    assert f"{words + 40:,}" in outcome.out  # the percent signs are counted: nothing was dropped again


def test_quiet(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "train.trees", "(S (NN a) (NN b))\n")
    assert call("prepare", "brackets", tmp_path, "--out", tmp_path / "out", "-q").err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["brackets", "missing"], "missing: no such file"),
        (["brackets", "bad.trees"], "bad.trees:2: "),
        (["brackets", "latin.trees"], "latin.trees:1: byte 0xe9 is not UTF-8"),
        (["brackets", "good.trees", "good.trees"], "good.trees: is given more than once"),
        (["brackets", "train.trees", "dev.trees"], "no sentence is left for valid"),
        (["brackets", "empty.trees"], "empty.trees: no trees"),
        (["brackets", "good.trees", "--split", "90,10"], "give three shares"),
        (["brackets", "good.trees", "--split", "nan,1,1"], "give three shares"),
        (["brackets", "good.trees", "--keep-tags", "A", "--drop-tags", "B"], "give one of them"),
        (["brackets", "good.trees", "--punctuation", "keep", "--drop-tags", "B"], "asks no tags"),
        (["brackets", "good.trees", "--keep-tags", "XYZ"], "words go by their tags"),
        (["ptb", "good.trees"], "no file named such as wsj_0200.mrg"),
        (["ptb", ".", "--train", "x"], "no range of numbers"),
        (["ctb", "."], "no file named such as chtb_001.fid"),
        (["brackets"], "missing argument"),
        (["nothing"], "no such command"),
    ],
)
def test_refusals_are_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "good.trees", "(S (NN a) (NN b))\n")
    write(tmp_path, "empty.trees", "")
    write(tmp_path, "train.trees", "(S (NN a) (NN b))\n")
    write(tmp_path, "dev.trees", "(S (. .))\n")
    write(tmp_path, "bad.trees", "(S (NN a) (NN b))\n(S (NN a) b)\n")
    write(tmp_path, "latin.trees", "(S (NN é) (NN b))\n", "latin-1")
    outcome = call("prepare", *arguments, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_run_on_prepared_text_takes_text_as_it_is_published(call: Call, tmp_path: Path) -> None:
    published, out, run, ngram = (tmp_path / name for name in ("train.trees", "out", "run", "ngram.safetensors"))
    trees = [tree.to_brackets() for tree in short_trees(60)]
    published.write_text(
        "".join(f"(TOP (NP (DT The) (CD 1,{n:03}) (NN %)) (, ,) {tree} (. .))\n" for n, tree in enumerate(trees))
    )
    assert call("prepare", "brackets", published, "--out", out).code == 0
    keep = [f"data.{setting}" for setting in ("lowercase=false", "numbers=keep", "punctuation=keep")]
    settings = [part for setting in [*SETTINGS, *keep] for part in ("--set", setting)]
    assert call("train", "sn-pcfg-small", "--train", out / "train.txt", "--out", run, *settings).code == 0
    assert call("baseline", "ngram", "--like", run, "--out", ngram).code == 0
    of_published, of_prepared = (
        json.loads(call("evaluate", run, "right-branching", ngram, file, "--json", "-").out)
        for file in (published, out / "train.trees")
    )
    assert of_published == of_prepared
    raw, prepared = (
        call("score", run, *more, stdin=text) for more, text in (((), "the N %"), (("--raw",), "The 1,234%."))
    )
    assert (raw.code, raw.out) == (0, prepared.out)
    assert "1 of 4 words (25.0 %): cheap" in call("parse", run, stdin="The 1,234 % , cheap .").err


def test_the_next_command_is_quoted(call: Call, tmp_path: Path) -> None:
    write(tmp_path, "train.trees", "(S (NN a) (NN b))\n")
    out = tmp_path / "my data"
    result = call("prepare", "brackets", tmp_path / "train.trees", "--out", out)
    assert result.code == 0
    assert f"next: simplepcfg train demo --train '{out}/train.txt' --set data.lowercase=false" in result.err
    assert result.err.endswith(" --out 'runs/my data'\n")
    fewer = call("prepare", "brackets", tmp_path / "train.trees", "--out", tmp_path / "b", "--min-count", 2)
    assert "--set data.min_count=2 --out runs/b" in fewer.err
    assert "for 1 sentence on this machine: demo (few sentences make a toy" in result.err


@pytest.mark.parametrize("config", ["sn-pcfg-4096", "sn-pcfg-small-lm"])
def test_language_models_keep_the_text_as_it_is(config: str) -> None:
    data = load_config(config).data
    assert (data.lowercase, data.numbers, data.punctuation) == (False, "keep", "keep")
