"""Spans of dependency subtrees, computed by hand."""

from pathlib import Path

import pytest

from simplepcfg.data.dependencies import dependency_tree
from simplepcfg.data.readers import has_dependencies, read_dependencies
from simplepcfg.errors import InputError


def spans(tags: str, heads: list[int], relations: str = "") -> tuple[list[tuple[int, int, str]], int]:
    labels = relations.split() or ["r"] * len(heads)
    tree = dependency_tree([f"w{at}" for at in range(len(heads))], tags.split(), heads, labels)
    return list(tree.tree.spans), tree.discontinuous


def test_subtrees() -> None:
    """The old man sees a dog: the subtrees of man and dog, of other words only themselves."""
    relations = "det amod nsubj:pass root det obj"
    expected = [(0, 6, "root"), (0, 3, "nsubj"), (4, 6, "obj")]
    assert spans("DET ADJ NOUN VERB DET NOUN", [3, 3, 4, 0, 6, 4], relations) == (expected, 0)


def test_punctuation_belongs_to_no_subtree() -> None:
    """w0 , w2 w3 . with the comma inside and the full stop at the end of w3's subtree: both are left out of it."""
    assert spans("X PUNCT X X PUNCT", [4, 3, 0, 3, 4]) == ([(0, 5, "root")], 1)  # w0 and w3, with w2 between them
    assert spans("X PUNCT X X PUNCT", [3, 4, 4, 0, 4]) == ([(0, 5, "root"), (0, 3, "r")], 0)  # w0 , w2


def test_a_subtree_in_pieces_is_counted_and_left_out() -> None:
    """A hearing is scheduled on the issue: the subtree of hearing is words 0, 1, 4 to 6, that of issue is whole."""
    tags = "DET NOUN AUX VERB ADP DET NOUN"
    assert spans(tags, [2, 4, 4, 0, 7, 7, 2]) == ([(0, 7, "root"), (4, 7, "r")], 1)


def test_several_roots_are_subtrees() -> None:
    assert spans("X X X X", [0, 1, 0, 3]) == ([(0, 4, "root"), (0, 2, "r"), (2, 4, "r")], 0)


def test_heads_in_a_circle() -> None:
    with pytest.raises(InputError, match="circle"):
        spans("X X X", [0, 3, 2])


def test_files(tmp_path: Path) -> None:
    """Ranges and empty nodes are no words; heads count words alone."""
    path = tmp_path / "gold.conllu"
    lines = ["1\tje\t_\tPRON\t_\t_\t2\tnsubj\t_\t_", "2\tvais\t_\tVERB\t_\t_\t0\troot\t_\t_"]
    lines += ["3-4\tau" + "\t_" * 8, "3\tà\t_\tADP\t_\t_\t5\tcase\t_\t_", "4\tle\t_\tDET\t_\t_\t5\tdet\t_\t_"]
    lines += ["4.1\tx" + "\t_" * 8, "5\tbois\t_\tNOUN\t_\t_\t2\tobl\t_\t_", "6\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_"]
    path.write_text("# text = je vais au bois.\n" + "\n".join(lines) + "\n")
    assert has_dependencies(path)
    (only,) = read_dependencies(path)
    assert only.tree.words == ("je", "vais", "à", "le", "bois", ".")
    assert only.tree.tags == ("PRON", "VERB", "ADP", "DET", "NOUN", "PUNCT")
    assert (only.tree.spans, only.discontinuous) == (((0, 6, "root"), (2, 5, "obl")), 0)
    for head in ("_", "7"):
        path.write_text("\n".join([*lines[:2], f"3\tà\t_\tADP\t_\t_\t{head}\tcase\t_\t_"]) + "\n")
        with pytest.raises(InputError, match=rf"gold.conllu:3: the head '{head}' is no word of a sentence of 3"):
            list(read_dependencies(path))
    path.write_text("1\tje" + "\t_" * 8 + "\n")
    assert not has_dependencies(path)
