"""Sampling from a simple PCFG: trees of given sentences, from their posterior, or derivations of the grammar."""

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.arguments import Sentences, SimpleRules, check_arguments
from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.modes import without_modes
from simplepcfg.ops.sample.draws import draw_uniforms
from simplepcfg.ops.sample.lengths import check_kept, check_request, draw_lengths_and_roots, length_table
from simplepcfg.ops.sample.top_down import draw_from_chart, draw_nodes
from simplepcfg.ops.trees import Trees, TreeTensors, empty_trees, rule_log_probabilities, scored_trees

__all__ = ["sample_derivations", "sample_trees"]


@without_modes
def sample_trees(rules: SimpleRules, sentences: Sentences, samples: int, generator: torch.Generator) -> Trees:
    """Draw ``samples`` independent labelled trees of each sentence from their posterior distribution.

    The same state of the generator gives the same trees on every device, up to rounding. Returns ``Trees`` with
    leading dimensions [B, samples]. Their log-probabilities are log p(words, tree); subtract log Z for log p(tree given
    words). A sentence of one word, or of probability 0, has no tree. Raises InputError if ``samples`` is less than 1,
    or as ``inside`` does.

    >>> sides = torch.full((1, 2), 0.5)                                     # two trees, equally probable
    >>> rules, sentences = SimpleRules(torch.ones(1), sides, sides), Sentences(torch.zeros(1, 3, 1))
    >>> trees = sample_trees(rules, sentences, 100, torch.Generator().manual_seed(0))
    >>> trees.spans.shape, trees.log_probability[0, 0].exp()
    (torch.Size([1, 100, 2, 2]), tensor(0.0625))
    """
    if samples < 1:
        raise InputError(f"samples = {samples}; ask for at least one tree a sentence")
    arguments = check_arguments(rules, sentences)
    batch, n, _, _ = arguments.sizes
    uniforms = draw_uniforms(batch * samples, n, generator, arguments.log_emissions.device)
    if n == 1:
        return empty_trees(batch * samples, arguments.log_emissions).view(batch, samples)
    sentence = torch.arange(batch * samples, device=uniforms.device) // samples
    with torch.no_grad():
        trees = draw_from_chart(arguments, samples, uniforms).to_tensors()
    log_rules = rule_log_probabilities(arguments.rules, sentence, trees)
    scored = scored_trees(trees, log_rules, arguments.log_emissions, arguments.span_bonus, sentence)
    return scored.view(batch, samples)


@without_modes
def sample_derivations(
    rules: SimpleRules, count: int, max_length: int, generator: torch.Generator
) -> tuple[TreeTensors, Tensor, Tensor]:
    """Draw ``count`` derivations down to preterminals of rules without a batch dimension.

    It is given that they have at most ``max_length`` words. Returns ``(trees, lengths, log_kept)``: spans, splits,
    labels and tags with leading dimension [count]; the number of words of each tree, [count]; and the log-probability
    that a derivation has at most ``max_length`` words, which is below 0 if sentences can be longer or derivations
    infinite. Raises InputError if the rules have a batch dimension, a number is less than 1, or no sentence is that
    short.
    """
    left = rules.left
    if left.dim() != 2:
        raise InputError(f"left has shape {list(left.shape)}; draw from one grammar at a time: [N, N + P]")
    check_request(count, max_length)
    with torch.no_grad():
        table = length_table(rules, max_length)
        log_kept = table.log_lengths.logsumexp(0)
        check_kept(log_kept, max_length)
        uniforms = draw_uniforms(count, max_length, generator, left.device)
        lengths, roots = draw_lengths_and_roots(table, rules.root, uniforms)
        nodes = Nodes.begin(roots, lengths, max_length)
        draw_nodes(nodes, table, torch.zeros_like(lengths), uniforms)
    return nodes.to_tensors(), lengths, log_kept
