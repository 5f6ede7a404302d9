"""Questions that one may ask of a grammar; those that a family cannot answer are refused in one line."""

from typing import ClassVar, NoReturn

from simplepcfg.errors import InputError

# Every question that SimpleGrammar answers, in words that an error can use.
QUESTIONS = {
    "log_partition": "log p of a sentence",
    "span_marginals": "span posteriors",
    "decode": "MBR trees",
    "viterbi": "most probable trees",
    "k_best": "k best trees",
    "sample_trees": "random trees of a sentence",
    "sample": "random sentences",
    "symbol_marginals": "posteriors of symbols over spans",
    "tag_marginals": "tags",
    "rule_counts": "expected rule counts",
    "entropy": "entropy over derivations",
    "kl_divergence": "divergence over derivations",
    "tree_entropy": "entropy over trees",
    "tree_kl_divergence": "divergence over trees",
    "prefix_log_probabilities": "prefix probabilities",
    "surprisal": "surprisals",
    "prefix_states": "surprisals",
    "next_word_log_probabilities": "next words",
    "next_word_entropy": "entropy of next words",
    "growing_prefix": "next words",
    "termination_probability": "probability of ending",
}


class Answers:
    """Base of grammars that do not answer every question: the others raise InputError, not AttributeError."""

    __slots__ = ()
    family: ClassVar[str] = "grammar"  # what a user knows it as: hmm
    refusal: ClassVar[str] = "use an sn-pcfg"  # why a question is refused, or what to do instead

    def __getattr__(self, name: str) -> NoReturn:
        if name in QUESTIONS:
            raise InputError(f"{self.family} has no {QUESTIONS[name]}; {self.refusal}")
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")
