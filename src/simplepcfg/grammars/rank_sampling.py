"""Random sentences and trees of a rank grammar: ranks from the simple grammar over them, then symbols given ranks."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from simplepcfg.grammars.sampling import SampledSentences, check_temperature, sample_words, tempered
from simplepcfg.ops.dense.trees import word_and_bonus_logs
from simplepcfg.ops.sample import sample_derivations
from simplepcfg.ops.sample.ranks import rank_rule_log_probabilities, symbols_of_ranks
from simplepcfg.ops.trees import Trees

if TYPE_CHECKING:
    from simplepcfg.grammars.rank import RankGrammar


def sample(
    grammar: "RankGrammar", count: int, max_length: int, temperature: float, generator: torch.Generator
) -> SampledSentences:
    """See ``RankGrammar.sample``."""
    check_temperature(temperature)
    plain = grammar.detached()
    cooled = plain.with_factors(*(tempered(factor, temperature) for factor in plain.factors))
    simple = cooled.to_simple()
    backend = grammar.backend if grammar.backend in ("torch", "triton") else "auto"
    rules = (simple.root, simple.left, simple.right)
    found, lengths, log_kept = sample_derivations(*rules, count, max_length, generator, backend=backend)
    spans, splits, ranks, tags = found
    labels = symbols_of_ranks(cooled.factors, spans, splits, ranks, _uniforms(ranks, generator))
    words, scores = sample_words(plain.emissions, tags, temperature, generator)
    scores += rank_rule_log_probabilities(plain.factors, spans, splits, labels, tags)
    wide = torch.promote_types(plain.root.dtype, torch.float32)  # half a type would lose the scores' digits
    trees = Trees(spans, splits, labels, tags, scores.to(wide))
    return SampledSentences(words, lengths, trees, float(log_kept))


def sample_trees(
    grammar: "RankGrammar",
    words: Tensor,
    lengths: Tensor | None,
    samples: int,
    generator: torch.Generator,
    span_bonus: Tensor | None,
) -> Trees:
    """See ``RankGrammar.sample_trees``."""
    with torch.no_grad():
        simple = grammar.to_simple()
        drawn = simple.sample_trees(words, lengths, samples=samples, generator=generator, span_bonus=span_bonus)
    batch = words.shape[0]
    by_ranks = drawn.view(batch * samples)
    if not by_ranks.labels.shape[1]:  # single words have no tree
        return drawn
    spans, splits, tags = by_ranks.spans, by_ranks.splits, by_ranks.tags
    labels = symbols_of_ranks(grammar.factors, spans, splits, by_ranks.labels, _uniforms(by_ranks.labels, generator))
    sentence = torch.arange(batch, device=words.device).repeat_interleave(samples, output_size=batch * samples)
    log_emissions = grammar.emissions.log_probabilities(words)
    scores = rank_rule_log_probabilities(grammar.factors, spans, splits, labels, tags)
    scores = scores + word_and_bonus_logs(log_emissions, span_bonus, sentence, spans, labels, tags)
    return Trees(spans, splits, labels, tags, scores.to(drawn.log_probability.dtype)).view(batch, samples)


def _uniforms(like: Tensor, generator: torch.Generator) -> Tensor:
    """A number a node; drawn after those of the ranks, from the same generator."""
    numbers = torch.rand(like.shape, generator=generator, device=generator.device, dtype=torch.float64)
    return numbers.to(like.device)
