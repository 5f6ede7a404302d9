"""Tables of words and regions: what is read, what is added, what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simplepcfg.errors import InputError
from simplepcfg.linguistics.item_tables import (
    read_item_table,
    score_item_table,
    scored_rows,
    several_sentences_remark,
)
from simplepcfg.linguistics.minimal_pairs import MinimalPair, evaluate_minimal_pairs
from simplepcfg.linguistics.word_model import WordSurprisal, with_known_marks
from toy_word_models import UnigramModel

MODEL = UnigramModel({"the": 0.0, "dog": 2.0, "barks": 3.0, "cat": 1.0, "no": 4.0})
HEADER = "item\tcondition\tzone\tregion\trt\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "items.tsv"
    path.write_text(text)
    return path


def test_a_text_in_one_long_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("once upon a time " * 10_000)
    with pytest.raises(InputError, match="lacks word or region"):
        read_item_table(path)


def test_sentences_of_rows(tmp_path: Path) -> None:
    rows = "1\ta\t1\tThe dog\t300\n1\tb\t1\tThe cat\t310\n1\ta\t2\tbarks.\t\n1\tb\t2\tzorks.\tNA\n2\ta\t1\tThe cat\t1\n"
    table = read_item_table(written(tmp_path, HEADER + rows))
    assert table.texts() == [["The dog", "barks."], ["The cat", "zorks."], ["The cat"]]
    assert table.column("rt") == ["300", "310", "", "NA", "1"]
    scores = score_item_table(MODEL, table)
    assert [score.surprisal for score in scores] == [2.0, 1.0, 3.0, 10.0, 1.0]
    header, *found = scored_rows(table, scores, 1)
    assert header[5:] == [
        "tokens", "surprisal_bits", "entropy_bits", "syntactic_surprisal_bits", "lexical_surprisal_bits",
        "entropy_reduction_bits", "unknown", "surprisal_bits_prev1", "unknown_prev1"
    ]  # fmt: skip
    parts = ["NA", "NA"]  # the model has no preterminals, and no entropy is known after the last word
    assert found[0][:8] == ["1", "a", "1", "The dog", "300", "the dog", "2.885390", "2.885390"]
    assert found[0][8:] == [*parts, "0.000000", "0", "NA", "NA"]
    assert found[3][:8] == ["1", "b", "2", "zorks.", "NA", "<unk>", "14.426950", "5.770780"]
    assert found[3][8:] == [*parts, "NA", "1", "1.442695", "0"]


def test_the_end_is_asked_for_where_a_last_region_has_no_tokens(tmp_path: Path) -> None:
    class Asked(UnigramModel):
        def surprisal(
            self, sentences: Sequence[Sequence[str]], *, ends: bool = True, entropies: bool = False
        ) -> list[list[WordSurprisal]]:
            asked.append(ends)
            found = super().surprisal(sentences)
            return found if ends else [records[:-1] for records in found]

    asked: list[bool] = []
    model = Asked({"the": 1.0, "dog": 2.0})
    for text, end in (("1\tThe\n1\tdog.\n", False), ("1\tThe\n1\tdog.\n2\tdog\n2\t.\n", True)):
        table = read_item_table(written(tmp_path, f"item\tword\n{text}"))
        scores = score_item_table(model, table)
        assert asked.pop() is end
        assert [score.surprisal for score in scores] == [1.0, 2.0, *([2.0, 1.0] if end else [])]


def test_words_without_tokens_and_of_probability_zero(tmp_path: Path) -> None:
    model = UnigramModel({"the": float("inf"), "dog": 2.0})
    table = read_item_table(written(tmp_path, "item\tword\n1\tThe\n1\t—\n1\tdog.\n"))
    _, *found = scored_rows(table, score_item_table(model, table))
    assert [row[2:5] + row[-1:] for row in found] == [
        ["the", "Inf", "2.885390", "0"],
        ["NA", "NA", "NA", "0"],
        ["dog", "2.885390", "4.328085", "0"],
    ]


@pytest.mark.parametrize(
    ("known", "tokens"),
    [
        (["-lrb-", "-rrb-"], [("the", "-lrb-", "dog"), ("-rrb-", "<unk>")]),  # as in treebanks
        (["(", ")"], [("the", "(", "dog"), (")", "<unk>")]),
        (["(", ")", "-lrb-", "-rrb-", "["], [("the", "(", "dog"), (")", "[")]),
    ],
)
def test_brackets_as_the_model_knows_them(tmp_path: Path, known: list[str], tokens: list[tuple[str, ...]]) -> None:
    model = UnigramModel(dict.fromkeys(("the", "dog", *known), 1.0), punctuation="keep")
    table = read_item_table(written(tmp_path, "item\tregion\n1\tThe (dog\n1\t) [\n"))
    assert [score.tokens for score in score_item_table(model, table)] == tokens
    (one,) = evaluate_minimal_pairs(model, [MinimalPair("The (dog)", "The zebra", "brackets")])
    assert (one.correct, model.score([["the", known[0], "dog", known[1]]])) == (1, [-5.0])


@pytest.mark.parametrize(
    ("known", "tokens"),
    [
        (["``", "''"], "`` the dog '' `` the ''"),
        (['"'], '" the dog " " the "'),
        (["“", "”"], "“ the dog ” “ the ”"),
        (["''"], "'' the dog '' '' the ''"),
        (["."], "<unk> the dog <unk> <unk> the <unk>"),
    ],
)
def test_quotation_marks_as_the_model_knows_them(known: list[str], tokens: str) -> None:
    model = UnigramModel(dict.fromkeys(("the", "dog", *known), 1.0), punctuation="keep")
    words = ['"', "the", "dog", '"', "“", "the", "”"]
    found = with_known_marks(model, words)
    assert " ".join(word if word in model.vocabulary else "<unk>" for word in found) == tokens
    assert with_known_marks(model, ["the", "dog"]) == ["the", "dog"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('item\tword\n1\t"Come\n1\there"\n', ['"Come', 'here"']),  # plain: marks belong to words
        ('item\tword\n1\t"Come"\n', ['"Come"']),
        ('item\tword\n1\t"""Come"\n', ['"Come']),  # pandas
        ('"item"\t"word"\n"1"\t"Come"\n', ["Come"]),  # R
        ('"item"\t"word"\n1\t"a ""b"""\n', ['a "b"']),
        ('"item"\t"word"\n1\t"\\"Come"\n1\t"here,\\""\n1\t"\\""\n', ['"Come', 'here,"', '"']),  # R's write.table
        ('item\tword\n1\t"\\"\n', ['"\\"']),
    ],
)
def test_quotation_marks(tmp_path: Path, text: str, words: list[str]) -> None:
    assert read_item_table(written(tmp_path, text)).column("word") == words


@pytest.mark.parametrize(
    "text",
    [
        'item,region,rt\n1,"The ""dog"",",300\n1,barks.,\n',
        'item;region;rt\r\n1;"The ""dog"",";300\r\n;;\r\n\r\n1;barks.;\r\n',
        '\ufeff"item","region","rt"\n"1","The ""dog"",","300"\n"1","barks.",""\n',
        'item\tregion\trt\t\t\n1\tThe "dog",\t300\t\t\n\t\t\t\t\n1\tbarks.\t\t\t\n',
    ],
)
def test_tables_as_spreadsheets_save_them(tmp_path: Path, text: str) -> None:
    table = read_item_table(written(tmp_path, text))
    assert table.columns == ("item", "region", "rt")
    assert table.texts() == [['The "dog",', "barks."]]
    assert table.column("rt") == ["300", ""]


def test_names_of_columns_may_have_capitals(tmp_path: Path) -> None:
    rows = "1\ta\t1\tThe dog\n1\tb\t1\tThe cat\n"
    table = read_item_table(written(tmp_path, f"Item\tCondition\tZONE\tRegion\n{rows}"))
    assert table.texts() == [["The dog"], ["The cat"]]
    assert table.columns == ("Item", "Condition", "ZONE", "Region")
    with pytest.raises(InputError, match=r"items.tsv:3: Zone 1 comes after 1 .* equal Item "):
        read_item_table(written(tmp_path, f"Item\tkind\tZone\tWord\n{rows}"))


def test_rows_of_several_sentences_are_remarked_upon(tmp_path: Path) -> None:
    rows = "1\tThe dog\n1\tbarks.\n1\tThe cat\n1\tsleeps.\n"
    remark = several_sentences_remark(read_item_table(written(tmp_path, f"item\tregion\n{rows}")))
    assert remark is not None
    assert "rows of equal item are read as one sentence, and seem to be several, as in `barks. The`" in remark
    apart = rows.replace("1\tThe cat\n1", "2\tThe cat\n2")
    assert several_sentences_remark(read_item_table(written(tmp_path, f"item\tregion\n{apart}"))) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "items.tsv: is empty"),
        ("\n \n", "items.tsv: is empty"),
        ("word\nThe\n", "lacks item"),
        ("condition\tword\na\tThe\n", "lacks item"),  # else all sentences of a condition were one
        ("item,rt\n1,2\n", "lacks word or region"),
        ("item\trt\r1\t2" + 99 * "\r1\t2", "header 'item rt' lacks word or region"),  # line ends of old Macs
        ('item,word\n1,a\n1,"b\n1,c\n', "items.tsv:3: the quotation marks"),
        ('"item"\t"word"\n"1"\t1\t"a"\n', "items.tsv:2: has 3 cells, the header 2; .* row.names = FALSE"),
        ("item\trt\n1\t2\n", "lacks word or region"),
        ("item\tword\titem\n1\ta\t2\n", "twice"),
        ("item\tword\n", "no rows"),
        ("item\tword\n1\n", "items.tsv:2: has 1 cell, the header 2; give a cell a column$"),
        (HEADER + "1\ta\t1\tx\t\n1\ta\t1\ty\t\n", "items.tsv:3: zone 1 comes after 1"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_item_table(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_columns_that_are_there_already(tmp_path: Path) -> None:
    table = read_item_table(written(tmp_path, "item\tword\tunknown\n1\tthe\t0\n"))
    with pytest.raises(InputError, match="column unknown already"):
        list(scored_rows(table, score_item_table(MODEL, table)))


class Annotated(UnigramModel):
    """The syntactic surprisal of a word is its place in the sentence; a mark has none."""

    def surprisal(self, sentences: Sequence[Sequence[str]], **_: bool) -> list[list[WordSurprisal]]:
        return [
            [
                record if record.token is None else replace(record, syntactic_surprisal=float(place))
                for place, record in enumerate(records)
            ]
            for records in super().surprisal(sentences)
        ]


def test_numbers_of_regions_with_several_tokens(tmp_path: Path) -> None:
    """Surprisals are summed; the entropy is that before the first token."""
    table = read_item_table(written(tmp_path, "item\tword\n1\tdon't\n1\t—\n1\tdog,\n1\tthe cat.\n"))
    scores = score_item_table(Annotated({"the": 0.0, "dog": 2.0, "cat": 1.0}), table, entropies=True)
    assert [score.surprisal for score in scores] == [20, None, 2, 1]
    assert [score.syntactic_surprisal for score in scores] == [0 + 1, None, 3, 5 + 6]
    assert [score.entropy for score in scores] == [2, None, 4, 5]
    assert [score.entropy_reduction for score in scores] == [0, None, 0, None]
