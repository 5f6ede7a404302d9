"""Whole folders: what is written is whole, agrees with itself, and can be read by everything else."""

import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from counted_words import vocabulary_of
from simplepcfg.data import preparation
from simplepcfg.data.conventions import Conventions
from simplepcfg.data.preparation import AS_PREPARED, Job, prepare
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.readers import read_sentences, read_trees
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.treebank_files import find_trees
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.progress import heard_by

TREES = "(S (NP-SBJ (DT The) (NN dog)) (VP (VBZ eats) (NP (CD 12) (NN %))) (. .))\n(X (. .))\n(INTJ (UH Yes))\n"


def job(folder: Path, conventions: Conventions | None = None, **changes: object) -> Job:
    source = find_trees([folder])
    return Job(kind="brackets", sources=[folder], source=source, conventions=conventions or Conventions(), **changes)  # type: ignore[arg-type]


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    folder = tmp_path / "trees"
    folder.mkdir()
    for seed, name in enumerate(("train", "dev", "test")):
        trees = generate_treebank(60, seed=seed)
        (folder / f"{name}.trees").write_text(TREES + "".join(f"(TOP {tree.to_brackets()} (. .))\n" for tree in trees))
    return folder


def test_text_and_trees_have_the_same_words(treebank: Path, tmp_path: Path) -> None:
    done = prepare(job(treebank), tmp_path / "out")
    names = {f"{split}.{ending}" for split in ("train", "valid", "test") for ending in ("txt", "trees")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {"vocabulary.txt", "prepared.toml"}
    for split, count in done.splits.items():
        sentences = list(read_sentences(tmp_path / "out" / f"{split}.txt"))
        trees = list(read_trees(tmp_path / "out" / f"{split}.trees"))
        assert [list(tree.words) for tree in trees] == sentences
        assert sentences[:2] == [["the", "dog", "eats", "N", "%"], ["yes"]]
        assert (count.read, count.sentences, count.words) == (63, 62, sum(map(len, sentences)))
    assert done.losses.reasons[preparation.EMPTIED] == 3


def test_what_is_prepared_is_not_prepared_again(treebank: Path, tmp_path: Path) -> None:
    """With the settings that prepared.toml names, a run sees the words that were written, and the same vocabulary."""
    out = tmp_path / "out"
    prepare(job(treebank, Conventions(vocabulary_size=20)), out)
    described = tomllib.loads((out / "prepared.toml").read_text(encoding="utf-8"))
    assert {key: described["data"][key] for key in AS_PREPARED} == AS_PREPARED
    again = Preprocessing(**AS_PREPARED)
    sentences = list(read_sentences(out / "train.txt"))
    assert [again.apply(words).tokens for words in sentences] == sentences
    for tree in read_trees(out / "train.trees"):
        assert again.prepare_tree(tree) == tree
    size = described["data"]["vocabulary_size"]
    assert Vocabulary.load(out / "vocabulary.txt") == vocabulary_of(sentences, size)
    prepare(job(out), tmp_path / "twice")  # and preparation itself changes nothing the second time
    for name in ("train.trees", "valid.trees", "test.trees"):
        assert (tmp_path / "twice" / name).read_bytes() == (out / name).read_bytes()


def test_runs_prepare_trees_alike(treebank: Path, tmp_path: Path) -> None:
    """The conventions are those that a run applies to raw trees."""
    prepare(job(treebank), tmp_path / "out")
    expected = [tree for raw in read_trees(treebank / "train.trees") if len(tree := Preprocessing().prepare_tree(raw))]
    plain = [replace(tree, spans=tuple((i, j, label.split("-")[0]) for i, j, label in tree.spans)) for tree in expected]
    assert list(read_trees(tmp_path / "out" / "train.trees")) == plain


def test_description(treebank: Path, tmp_path: Path) -> None:
    prepare(job(treebank), tmp_path / "out")
    described = tomllib.loads((tmp_path / "out" / "prepared.toml").read_text(encoding="utf-8"))
    assert described["conventions"]["keep_tags"] == ["penn"]
    assert described["splits"]["valid"]["one_word_sentences"] >= 1
    assert described["dropped"]["by_tag"] == {".": 3 * 62}
    assert set(described["sha256"]) == {path.name for path in (tmp_path / "out").iterdir()} - {"prepared.toml"}


def test_shares(tmp_path: Path) -> None:
    (tmp_path / "all.trees").write_text("".join(tree.to_brackets() + "\n" for tree in generate_treebank(500, seed=1)))
    first = prepare(job(tmp_path / "all.trees", shares=(80, 10, 10), seed=3), tmp_path / "a")
    prepare(job(tmp_path / "all.trees", shares=(80, 10, 10), seed=3), tmp_path / "b")
    assert sum(count.sentences for count in first.splits.values()) == 500
    assert first.splits["train"].sentences == pytest.approx(400, abs=40)
    for name in ("train.txt", "valid.trees", "test.txt"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert list(prepare(job(tmp_path / "all.trees"), tmp_path / "c").splits) == ["train"]
    (tmp_path / "train.trees").write_text(TREES)
    with pytest.raises(InputError, match="leave it out"):
        prepare(job(tmp_path / "train.trees", shares=(1, 1, 1)), tmp_path / "d")


def test_nothing_is_overwritten(treebank: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    with pytest.raises(InputError, match=r"is not empty \(mine\)"):
        prepare(job(treebank), out)
    assert (out / "mine").read_text() == "x"
    with pytest.raises(InputError, match="is a file"):
        prepare(job(treebank), out / "mine")
    (out / "mine").unlink()
    prepare(job(treebank), out)  # an empty folder is filled
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("exists", [False, True])
def test_an_interrupted_run_leaves_nothing(treebank: Path, tmp_path: Path, error: type, exists: bool) -> None:
    out = tmp_path / "place" / "out"
    out.parent.mkdir()
    if exists:
        out.mkdir()

    class Interrupting:
        def begin(self, what: str, total: float | None) -> None: ...

        def advance(self, amount: float) -> None:
            assert list(out.parent.rglob("train.txt"))
            raise error

        def end(self) -> None: ...

    with pytest.raises(error), heard_by(Interrupting()):
        prepare(job(treebank), out)
    assert list(out.parent.rglob("*")) == ([out] if exists else [])


def test_foreign_tags_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.trees").write_text("(S (NOUN dog) (VERB barks) (PUNCT .))\n" * 3)
    with pytest.raises(InputError, match=r"train\.trees: 6 of 6 words go by their tags \(such as NOUN VERB PUNCT\)"):
        prepare(job(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    prepare(job(tmp_path, Conventions(keep_tags=(), drop_tags=("PUNCT",))), tmp_path / "out")
    assert (tmp_path / "out" / "train.txt").read_text() == "dog barks\n" * 3


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.trees").write_text("(S (NN a) (NN b))\n(S (NN a) b)\n")
    with pytest.raises(InputError, match=r"train\.trees:2: "):
        prepare(job(tmp_path), tmp_path / "out")
    (tmp_path / "train.trees").write_text("(S (NN a) (NN b))\n(S (NN a)\n")
    with pytest.raises(InputError, match=r"train\.trees:2: the tree that begins here is not closed"):
        prepare(job(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_process_left_is_removed(treebank: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".unfinished").mkdir(parents=True)
    (out / ".unfinished" / "train.txt").write_text("half")
    prepare(job(treebank), out)
    assert not (out / ".unfinished").exists()
    assert (out / "prepared.toml").exists()


def test_a_process_that_was_killed_while_it_moved_files(treebank: Path, tmp_path: Path) -> None:
    """The description, which is moved last, tells which files are its own; any other stays."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    prepare(job(treebank), whole)
    shutil.copytree(whole, out / ".unfinished")
    (out / ".unfinished" / "train.txt").rename(out / "train.txt")
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty \(mine\.txt\)"):
        prepare(job(treebank), out)
    (out / "mine.txt").unlink()
    prepare(job(treebank), out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in whole.iterdir()
    }

    (out / "prepared.toml").rename(tmp_path / "prepared.toml")
    (out / ".unfinished").mkdir()
    (tmp_path / "prepared.toml").rename(out / ".unfinished" / "prepared.toml")
    (out / "train.txt").write_text("changed")
    with pytest.raises(InputError, match=r"not empty \(train\.txt\)"):
        prepare(job(treebank), out)
    assert (out / "train.txt").read_text() == "changed"
