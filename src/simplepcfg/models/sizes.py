"""How large a model's tensors are, in numbers: what a guess at memory needs to know of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers (not bytes) that a model holds for a batch, and the keys that make each of them smaller."""

    activations: int  # inputs of the networks' layers, kept for backward
    rules: int  # probabilities of all rules but emissions; of all sentences, where each has its own
    rule_gradient: bool = True  # whether the gradient by all rules is held in bf16 on a GPU, too
    tags: int  # symbols that emit words
    emission_tables: int = 1  # the batch's sentences, where each has its own emissions
    span_numbers: int = 0  # in one copy of the chart, for each span
    word_numbers: int = 0  # in one copy of the chart, for each word
    full_precision: bool = False  # whether rules and chart are float32 whatever the run's precision
    network_keys: str = "model.embedding or model.nonterminals"
    rule_keys: str = "model.nonterminals and model.preterminals"
    tag_keys: str = "model.preterminals"
