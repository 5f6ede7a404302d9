"""Sizes of a model's tensors, from which memory is estimated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers of elements (not bytes) of a model's tensors for a batch, and the keys that make them smaller."""

    activations: int  # inputs of the networks' layers, kept for the backward pass
    rules: int  # probabilities of all rules but emissions, of all sentences where each has its own
    rule_gradient: bool = True  # whether a step in bf16 on a GPU holds the gradient by all rules at once
    tags: int  # preterminals or states, which emit words
    emission_tables: int = 1  # number of sentences in the batch, where each has its own emissions
    span_numbers: int = 0  # elements of a span in one copy of the chart: N, or the ranks
    word_numbers: int = 0  # elements of a word in one copy of the chart
    full_precision: bool = False  # whether rules and chart are float32 whatever the run's precision
    network_keys: str = "model.embedding or model.nonterminals"
    rule_keys: str = "model.nonterminals and model.preterminals"
    tag_keys: str = "model.preterminals"
