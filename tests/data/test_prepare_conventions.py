"""One tree at a time: which leaves stay, what labels and words become, and what is counted."""

from collections import Counter
from typing import Any

import pytest

from simplepcfg.data.brackets import EMPTY_TREES, parse_tree, parse_trees
from simplepcfg.data.conventions import (
    GERMAN_PUNCTUATION,
    SPACES,
    Conventions,
    Losses,
    prepare_tree,
    prepare_words,
)
from simplepcfg.data.trees import EMPTY_CONSTITUENTS, TRACES
from simplepcfg.errors import InputError


def prepared(text: str, **switches: Any) -> tuple[str, Losses]:
    losses = Losses()
    return prepare_tree(parse_tree(text), Conventions(**switches), losses).to_brackets(), losses


@pytest.mark.parametrize(
    ("text", "written", "switches"),
    [
        (
            "(S (NP-SBJ-1 (DT The) (NN dog)) (VP=2 (VBZ barks)) (. .))",
            "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
            {},
        ),
        ("(S (NP-SBJ (PRP$ My) (NN $)) ($ $))", "(S (NP (PRP$ my) (NN $)))", {}),
        ("(S (PRN (-LRB- -LRB-) (NN x) (-RRB- -RRB-)) (NN y))", "(S (PRN (NN x)) (NN y))", {}),
        ("(S (NP (. .) (`` ``)) (NN y))", "(S (NN y))", {}),
        ("(S (NN eye) (HYPH -) (NN Tracking))", "(S (NN eye) (NN tracking))", {}),
        ("(S (NN a) (HYPH -))", "(S (NN a) (HYPH -))", {"keep_tags": ("penn", "HYPH")}),
        ("(S (NN a) (HYPH -))", "(S (HYPH -))", {"keep_tags": ("HYPH",)}),
        ("(S (NN a) (HYPH -) (. .))", "(S (NN a) (. .))", {"keep_tags": (), "drop_tags": ("HYPH",)}),
        ("(S (X a) (Y -) (Z %) (W 5))", "(S (X a) (W N))", {"punctuation": "characters"}),
        ("(S (NN a) (. .))", "(S (NN a) (. .))", {"punctuation": "keep"}),
        ("(S (CD 3,000.5) (JJ mid-1990s))", "(S (CD N) (JJ mid-Ns))", {}),
        ("(S (CD 3,000.5) (NN A))", "(S (CD 3,000.5) (NN A))", {"numbers": "keep", "lowercase": False}),
        ("(S (VBG|NN a) (NN b))", "(S (VBG a) (NN b))", {}),
        ("(S (ADVP|PRT (RB a)) (NN b))", "(S (ADVP|PRT (RB a)) (NN b))", {}),
        ("(S (NN <unk>) (CD N) (NN B))", "(S (NN <unk>) (CD N) (NN b))", {}),
        ("(S (NP (NN a)) (NN *T*-1) (NN *ICH*-2) (NN *T1*-SB) (NN *hm*))", "(S (NP (NN a)) (NN *hm*))", {}),
        ("( (S (NN a) (NN b)) (. .) )", "(S (NN a) (NN b))", {}),  # a wrapper only once the full stop is gone
        ("( (NP (NN a)) (NN b) )", "( (NP (NN a)) (NN b))", {}),
    ],
)
def test_trees(text: str, written: str, switches: dict[str, Any]) -> None:
    brackets, _ = prepared(text, **switches)
    assert brackets == written
    parse_tree(brackets)


def test_morphology_and_functions_of_tags_go() -> None:
    text = "(VROOT (S##_## (NP-SB##x=1## (ART-NK##case=nom|n=s## Der) (NN-NK##a## Hund)) (VVFIN-HD bellt)) ($.-- .))"
    brackets, losses = prepared(text, keep_tags=(), drop_tags=GERMAN_PUNCTUATION)
    assert brackets == "(VROOT (S (NP (ART der) (NN hund)) (VVFIN bellt)))"
    assert losses.tags == {"$.": 1}


def test_words_mean_the_same_in_text_and_in_brackets() -> None:
    losses = Losses()
    tree = prepare_tree(parse_tree("(S (CD 10\u00a0000) (NN a\u3000b))"), Conventions(), losses)
    assert tree.words == ("N_N", "a_b")
    assert losses.reasons[SPACES] == 2
    assert prepare_words(["f(x)", "b"], Conventions(), losses) == ["f-LRB-x-RRB-", "b"]


def test_counts() -> None:
    _, losses = prepared("(S (NP (NN a)) (NP (, ,)) (. .) (GW foo) (X *T*-1))")
    assert losses.tags == {",": 1, ".": 1, "GW": 1}
    assert losses.reasons[TRACES] == 1
    assert losses.reasons[EMPTY_CONSTITUENTS] == 1


def test_a_tolerant_reader_counts_what_has_no_words() -> None:
    counts: Counter[str] = Counter()
    lines = ["(S (NP) (NP (-NONE- *)) (NN", "a) (-NONE-", "*))", "(S (NP (-NONE- *)))", "()", "(S (NN b))"]
    assert [tree.words for tree in parse_trees(lines, "f", counts)] == [("a",), ("b",)]
    assert counts == {TRACES: 3, EMPTY_CONSTITUENTS: 5, EMPTY_TREES: 2}
    with pytest.raises(InputError, match=r"^f:2: .* mixes"):
        list(parse_trees(["(S (NN a))", "(S b (NN c))"], "f", counts))


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"keep_tags": ("A",), "drop_tags": ("B",)}, "give one"),
        ({"keep_tags": ()}, "give one"),
    ],
)
def test_refusals(switches: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Conventions(**switches)
