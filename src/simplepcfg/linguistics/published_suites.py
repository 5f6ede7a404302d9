"""Published accuracies on SyntaxGym's suites (Hu et al. 2020), to stand beside one's own.

They are means of 16 of the 31 suites that the published scores count, over items, then suites, then seeds, computed
from the authors' raw results; a tie is wrong. All models were trained on news, and RNNGs were taught by gold trees.
"""

from collections.abc import Iterable
from statistics import mean

from simplepcfg.linguistics.accuracy import SET, Accuracy

TRAINING_WORDS = ("1 million", "5 million", "14 million", "42 million")
PUBLISHED = {  # in per cent, by the words of the training text
    "n-gram": (4.1, 7.1, 12.1, 16.2),
    "LSTM": (30.1, 33.8, 33.3, 35.3),
    "ON-LSTM": (41.2, 49.2, 48.0, 44.4),
    "RNNG": (47.2, 55.3, 60.0, 59.6),
    "GPT-2": (26.8, 25.5, 74.6, 73.7),
}
SUITES = frozenset(
    {
        *("center_embed_mod", "cleft", "fgd_hierarchy", "fgd_subject", "mvrr", "npi_src_any", "npi_src_ever"),
        *("npz_ambig", "npz_ambig_mod", "number_orc", "number_prep", "reflexive_orc_masc", "reflexive_prep_masc"),
        *("reflexive_src_fem", "subordination_orc-orc", "subordination_pp-pp"),
    }
)


def mean_of_published_suites(entries: Iterable[Accuracy]) -> float | None:
    """Return the mean of a model's accuracies on these suites, each counted once; None if one of them is missing."""
    accuracies: dict[str, list[float]] = {}
    for entry in entries:
        if entry.level == SET and entry.counted and entry.group in SUITES:
            accuracies.setdefault(entry.group, []).append(entry.accuracy)
    return mean(map(mean, accuracies.values())) if len(accuracies) == len(SUITES) else None
