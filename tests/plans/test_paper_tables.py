"""The rows of the paper's tables: every published figure is there with its source, every row can be configured."""

from pathlib import Path

import pytest

from simplepcfg.plans.jobs import Job, Text, job_config
from simplepcfg.plans.tables import TABLES, PaperTable, Row, paper_table

# Model, states, figure and, where the table has one, perplexity, as printed.
LM = """
NHMM | 4096 | 147
LHMM | 16384 | 131.8
Rank HMM | 16384 | 127.0
Rank HMM | 32768 | 126.4
Rank PCFG | 4096 | 174.5 ± 11.1
Rank PCFG | 8192 | 161.2 ± 8.9
SN-PCFG | 4096 | 125.4 ± 4.1
SN-PCFG | 8192 | 119.0 ± 5.3
"""
PARSING = """
Right branching | | 39.5 |
Oracle binary trees | | 84.3 |
PRPN | | 37.4 |
ON | | 47.7 |
DIORA + span constraints | | 61.2 |
S-DIORA | | 57.6 |
Constituency tests | | 62.8 |
StructFormer | | 54.0 |
Fast-R2D2 | | 57.2 |
Rank PCFG (Yang et al. 2022) | 4500 | 64.1 | 168.0
N-PCFG | 30 | 50.8 | 252.6
N-PCFG | 128 | 56.7 ± 3.7 | 181.1 ± 15.3
C-PCFG | 30 | 55.2 |
TN-PCFG | 500 | 57.7 | 210.0
Rank PCFG | 4096 | 60.1 ± 7.6 | 165.1 ± 7.7
Rank PCFG | 8192 | 61.1 ± 5.9 | 171.2 ± 11.7
SN-PCFG | 128 | 51.1 ± 4.1 | 231.7 ± 8.1
SN-PCFG | 4096 | 65.1 ± 2.1 | 132.5 ± 4.9
SN-PCFG | 8192 | 62.9 ± 2.8 | 134.6 ± 9.1
SC-PCFG | 512 | 54.3 ± 4.8 |
SC-PCFG | 2048 | 60.6 ± 3.6 |
"""
# Of Chinese, French and German.
MULTILINGUAL = """
Left branching | | 7.2 | 5.7 | 10.0
Right branching | | 25.5 | 26.4 | 14.07
Random trees | | 15.2 | 16.2 | 13.9
Kim 2022 | | – | 41.9 | 47.3
Li and Lu 2023 | | – | 48.7 | 40.8
N-PCFG | 30 | 26.3 ± 2.5 | 45.0 ± 2.0 | 42.3 ± 1.6
C-PCFG | 30 | 38.7 ± 6.6 | 45.0 ± 1.1 | 43.5 ± 1.2
TN-PCFG | 250 | 39.2 ± 5.0 | 39.1 ± 4.1 | 47.1 ± 1.7
Rank PCFG | 4096 | 31.0 ± 8.9 (409.4 ± 29.5) | 31.2 ± 9.3 (355.8 ± 13.7) | 35.6 ± 9.1 (215.3 ± 57.1)
Rank PCFG | 8192 | 32.4 ± 8.2 (372.6 ± 31.4) | 32.9 ± 10.6 (332.2 ± 60.8) | 38.9 ± 9.6 (190.5 ± 65.9)
SN-PCFG | 4096 | 39.9 ± 6.3 (328.3 ± 62.1) | 38.0 ± 3.1 (379.7 ± 5.2) | 46.7 ± 4.9 (157.8 ± 65.6)
SN-PCFG | 8192 | 41.2 ± 3.5 (288.2 ± 11.7) | 43.3 ± 9.9 (259.9 ± 70.2) | 46.9 ± 5.1 (159.5 ± 77.2)
SC-PCFG | 512 | 38.4 ± 7.4 | 47.9 ± 1.2 | 47.7 ± 1.0
SC-PCFG | 2048 | 42.9 ± 2.9 | 49.9 ± 1.7 | 49.1 ± 1.0
"""
OURS = {  # rows that the paper's table does not have
    "lm": set(),
    "parsing": {"left-branching", "random", "tn-pcfg-250", "sn-pcfg-ie"},
    "multilingual": {"oracle"},
}


def printed(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


def model_name(row: Row) -> str:
    return row.model.split(", ")[0]


def in_paper(table: PaperTable) -> list[Row]:
    """Rows with figures; of a model that has a recipe of ours, too, once."""
    return [row for row in table.rows if row.published and not row.recipe_of]


def test_language_modelling() -> None:
    found = [[model_name(row), row.size, row.figure("perplexity", "")] for row in in_paper(paper_table("lm"))]
    assert found == printed(LM)


def test_parsing() -> None:
    rows = in_paper(paper_table("parsing"))
    found = [[row.model, row.size, row.figure("sentence_f1", ""), row.figure("perplexity", "")] for row in rows]
    assert sorted(found) == sorted(printed(PARSING))


def test_several_languages() -> None:
    found = []
    for row in in_paper(paper_table("multilingual")):
        cells = []
        for language in ("chinese", "french", "German"):
            f1, perplexity = row.figure("sentence_f1", language), row.figure("perplexity", language)
            cells.append((f1 or "–") + (f" ({perplexity})" if perplexity else ""))
        found.append([row.model, row.size, *cells])
    assert found == printed(MULTILINGUAL)
    assert paper_table("multilingual").languages == ["chinese", "french", "german"]


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_a_figure_with_its_source_or_is_ours(name: str) -> None:
    table = paper_table(name)
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        assert sum([bool(row.configuration), row.baseline is not None, row.quoted]) == 1
        assert bool(row.published) == (row.name not in OURS[name])
        assert bool(row.source) == bool(row.published)
        assert row.published or row.remark
        assert all(text for figures in row.published.values() for text in figures.values())
        if row.quoted:
            assert row.source.startswith("quoted in Liu et al. 2023")


def test_a_recipe_of_ours_is_a_row_beside_the_published_settings() -> None:
    rows = {row.name: row for row in paper_table("lm").rows}
    recipes = [row for row in rows.values() if row.recipe_of]
    assert len(recipes) == len(rows) / 2
    for row in recipes:
        other = rows[row.recipe_of]
        assert (row.published, row.size, model_name(row)) == (other.published, other.size, model_name(other))
        assert (row.configuration, row.settings) != (other.configuration, other.settings)


ROWS = [(name, row) for name in TABLES for row in paper_table(name).rows if row.config is not None]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda value: getattr(value, "name", value))
def test_every_row_has_a_valid_configuration_of_its_size(name: str, row: Row) -> None:
    text = Text("", Path("train"), Path("valid"), Path("test"), paper_table(name).settings)
    config = job_config(Job(row, text, 1), ())
    model = config.model_dump()["model"]
    assert model.get("nonterminals", model.get("states")) == int(row.size)
    if "preterminals" in model and not row.recipe_of:
        assert model["preterminals"] == 2 * int(row.size)
    # A setting of ours in a row that stands beside a published figure is named there.
    assert row.recipe_of or config.training.network_lr_multiplier == 1 or "our choice" in row.remark
    # Rows of the authors' networks read the published perplexity without <eos>.
    assert config.data.eos is (name == "lm" and not row.name.endswith("-paper"))
