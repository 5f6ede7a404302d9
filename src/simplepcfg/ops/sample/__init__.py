"""Random trees under a simple PCFG: of given sentences, from their posterior, or with words still to be chosen."""

import math

import torch
from torch import Tensor

from simplepcfg.errors import InputError
from simplepcfg.ops.backends import resolve_backend
from simplepcfg.ops.descent import Nodes
from simplepcfg.ops.inside.arguments import InsideArguments, check_arguments
from simplepcfg.ops.sample.draws import draw_uniforms, pick, pick_from_logs
from simplepcfg.ops.sample.lengths import LengthTable, length_table
from simplepcfg.ops.sample.naive import naive_sample
from simplepcfg.ops.sample.requests import check_request
from simplepcfg.ops.sample.top_down import WEIGHTS_AT_ONCE, draw_from_chart, draw_nodes
from simplepcfg.ops.trees import Trees, TreeTensors, empty_trees, stack_trees, tree_log_probabilities

__all__ = ["BACKENDS", "sample_derivations", "sample_trees"]

BACKENDS = ("naive", "torch", "triton")


def sample_trees(
    log_emissions: Tensor,
    root: Tensor,
    left: Tensor,
    right: Tensor,
    samples: int,
    generator: torch.Generator,
    *,
    lengths: Tensor | None = None,
    span_bonus: Tensor | None = None,
    precision: str | None = None,
    backend: str = "auto",
) -> Trees:
    """Independent trees of each sentence, in proportion to their probability; leading dimensions [B, samples].

    Other arguments as for ``simplepcfg.ops.inside.inside``. The trees' log-probabilities are those of words and tree
    together; less log Z they are the trees' own. A sentence of one word, or of probability 0, has no tree.
    """
    if samples < 1:
        raise InputError(f"samples = {samples}; ask for at least one tree a sentence")
    arguments = check_arguments(log_emissions, root, left, right, lengths, span_bonus, precision)
    backend = resolve_backend(backend, log_emissions, BACKENDS)
    batch, n, _, _ = arguments.sizes
    uniforms = draw_uniforms(batch * samples, n, generator, log_emissions.device)
    if n == 1:
        return empty_trees(batch * samples, arguments.log_emissions).view(batch, samples)
    sentence = torch.arange(batch, device=log_emissions.device)
    sentence = sentence.repeat_interleave(samples, output_size=batch * samples)
    with torch.no_grad():
        found = _draw(arguments, samples, uniforms, backend)
    scores = tree_log_probabilities(arguments, sentence, *found)
    return Trees(*found, scores).view(batch, samples)


def _draw(arguments: InsideArguments, samples: int, uniforms: Tensor, backend: str) -> TreeTensors:
    batch, n, _, _ = arguments.sizes
    if backend == "naive":
        trees = [naive_sample(arguments, row // samples, uniforms[row]) for row in range(batch * samples)]
        return stack_trees(trees, n, uniforms.device)
    if backend == "torch":
        return draw_from_chart(arguments, samples, uniforms).to_tensors()
    from simplepcfg.ops.sample import fused

    return fused.draw_from_chart(arguments, samples, uniforms).to_tensors()


def sample_derivations(
    root: Tensor,
    left: Tensor,
    right: Tensor,
    count: int,
    max_length: int,
    generator: torch.Generator,
    *,
    backend: str = "auto",
) -> tuple[TreeTensors, Tensor, Tensor]:
    """``count`` trees of the grammar itself, down to preterminals, given that they have at most ``max_length`` words.

    Gives the trees (spans, splits, labels, tags), their lengths [count], and the log-probability of that condition:
    what is missing from 0 belongs to longer sentences, and to derivations that never end.
    """
    if left.dim() != 2:
        raise InputError(f"left has shape {list(left.shape)}; draw from one grammar at a time: [N, N + P]")
    check_request(count, max_length)
    backend = resolve_backend(backend, left, BACKENDS)
    with torch.no_grad():
        table = length_table(root, left, right, max_length)
        log_kept = table.log_lengths.logsumexp(0)
        if float(log_kept) == -math.inf:
            raise InputError(
                f"no sentence of at most {max_length} words has a probability above 0; raise max_length, or a "
                "temperature near 0"
            )
        uniforms = draw_uniforms(count, max_length, generator, left.device)
        lengths = pick_from_logs(table.log_lengths[None], uniforms[None, :, 0])[0]
        nodes = Nodes.begin(_roots(table, root, lengths, uniforms[:, 1]), lengths, max_length)
        if backend == "triton":
            from simplepcfg.ops.sample import fused

            fused.draw_by_length(nodes, table, uniforms)
        else:
            draw_nodes(nodes, table, torch.zeros_like(lengths), uniforms)
    return nodes.to_tensors(), lengths, log_kept


def _roots(table: LengthTable, root: Tensor, lengths: Tensor, uniform: Tensor) -> Tensor:
    """The top symbol of a sentence whose length is known."""
    weights = table.beta.double() * root.double()  # [longest + 1, N]
    parts = zip(*(tensor.split(max(1, WEIGHTS_AT_ONCE // root.shape[0])) for tensor in (lengths, uniform)), strict=True)
    return torch.cat([pick(weights[some], numbers) for some, numbers in parts])
