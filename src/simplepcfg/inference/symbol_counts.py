"""Uses of a grammar's symbols, in a text or in sentences of its own, and the words that they cover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from glob import glob
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from simplepcfg.data.batching import Batch
from simplepcfg.errors import InputError
from simplepcfg.grammars import DenseGrammar, RankGrammar, SimpleGrammar
from simplepcfg.inference.batches import in_batches
from simplepcfg.inference.symbol_report import Usage, Weighted
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.ops.arguments import Sentences, check_arguments
from simplepcfg.ops.marginals import outside_rows
from simplepcfg.runs.corpus import training_text

# The run's own text is looked at as far as this, and of sentences that the grammar itself makes, so many are expected;
# a text that the caller gives is counted to its end.
OWN_SENTENCES = 1000
# Left-to-right sums over ever deeper derivations stop here; grammars that need more have no finite expectation.
MOST_ROUNDS = 5000
COVERED = 0.99

LabelledGrammar = SimpleGrammar | DenseGrammar  # those whose symbols can be counted


def shown_grammar(run: TrainedModel) -> LabelledGrammar:
    """Return the grammar whose symbols can be counted: of a rank model the one with all its rules, if small enough."""
    grammar = run.grammar
    if isinstance(grammar, RankGrammar):
        return grammar.to_dense()
    if not isinstance(grammar, SimpleGrammar | DenseGrammar):
        raise InputError(
            f"{run.name}: a model of kind {run.config.model.kind} has no constituents whose symbols could be shown; "
            "use an sn-pcfg"
        )
    return grammar


def child_probabilities(grammar: LabelledGrammar) -> tuple[Tensor, Tensor]:
    """Return P(left child given parent) and P(right child given parent), [N, N + P] each."""
    if isinstance(grammar, DenseGrammar):
        return grammar.rules.sum(-1), grammar.rules.sum(-2)
    return grammar.left, grammar.right


def expected_uses(grammar: LabelledGrammar) -> tuple[Tensor, Tensor]:
    """Compute the expected uses of each symbol in one sentence that the grammar makes: [N], [P] in float64.

    uses = root + uses · (left + right), summed over ever deeper derivations until nothing is added.
    """
    states = grammar.root.shape[-1]
    left, right = (rules.detach().double() for rules in child_probabilities(grammar))
    children = left + right  # [N, N + P]
    layer = grammar.root.detach().double()
    total = torch.zeros_like(layer)
    for _ in range(MOST_ROUNDS):
        total += layer
        layer = layer @ children[:, :states]
        if float(layer.sum()) <= 1e-9 * float(total.sum()):
            return total.cpu(), (total @ children[:, states:]).cpu()
        if float(layer.sum()) > 1e12:
            break
    raise InputError("the grammar's own sentences have no finite expected length; give a text to count on")


def own_text(run: TrainedModel) -> tuple[list[list[str]] | None, str]:
    """Return the first sentences of the run's own validation or training text, if it is there, and its name."""
    from simplepcfg.data.tokens import read_tokens

    for source in (run.config.data.valid, training_text(run.config.data)):
        paths = () if source is None else (source,) if isinstance(source, str) else source
        if source and all(p != "-" and (Path(p).is_file() or Path(p).is_dir() or glob(p)) for p in paths):
            tokens = read_tokens(source, run.preprocessing, raw=run.config.data.raw)
            return list(islice(tokens, OWN_SENTENCES)), ", ".join(paths)
    return None, "the grammar itself"


def uses_in(run: TrainedModel, grammar: LabelledGrammar, tokens: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """Compute the expected uses of each symbol over all derivations of a text: [N], [P] in float64."""
    uses = [torch.zeros((), dtype=torch.float64)] * 2

    def compute(batch: Batch) -> list[None]:
        with torch.no_grad():
            counts = grammar.rule_counts(batch.words, batch.lengths)
        uses[0] = uses[0] + counts.parents.double().cpu()
        uses[1] = uses[1] + counts.preterminals.double().cpu()
        return [None] * len(batch)

    in_batches(run, tokens, compute, lambda: None)
    if not float(uses[0].sum()) > 0:
        raise InputError(f"{run.name} gives no sentence of this text a tree; give another text to count on")
    return uses[0], uses[1]


def usage(uses: Tensor) -> Usage:
    """Measure how evenly symbols are used."""
    share = uses / uses.sum()
    entropy = -torch.special.xlogy(share, share).sum()
    falling = share.sort(descending=True).values.cumsum(0)
    covering = int((falling < COVERED).sum()) + 1
    return Usage(len(uses), float(entropy.exp()), min(covering, len(uses)), int((uses >= 1).sum()))


def _symbol_marginals(grammar: LabelledGrammar, batch: Batch, symbols: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield marginals of some nonterminals over spans, [rows, symbols], with the spans' cells of [B, n + 1, n + 1].

    Width by width, so that the surest spans of each can be told apart from those of the others.
    """
    if isinstance(grammar, DenseGrammar):
        marginals = grammar.symbol_marginals(batch.words, batch.lengths)[..., symbols]  # [B, n + 1, n + 1, symbols]
        cells = torch.arange(marginals[..., 0].numel(), device=marginals.device).view(marginals.shape[:3])
        for width in range(2, marginals.shape[1]):
            rows = torch.diagonal(marginals, width, 1, 2).transpose(1, 2)  # [B, spans, symbols]
            yield rows.flatten(0, 1), torch.diagonal(cells, width, 1, 2).flatten()
        return
    sentences = Sentences(grammar.log_emissions(batch.words, batch.lengths), batch.lengths)
    _, tables = outside_rows(check_arguments(grammar.rules, sentences), grammar.backend)
    for table in tables:
        yield table.outside[:, symbols].float() * table.inside[:, symbols].float(), table.cells


def words_and_examples(
    run: TrainedModel, grammar: LabelledGrammar, tokens: Sequence[Sequence[str]], chosen: Tensor, most: int = 5
) -> list[tuple[list[Weighted], list[Weighted]]]:
    """Return, for each chosen nonterminal, words below it with their share, and the surest spans of different words."""
    below = torch.zeros(len(run.vocabulary), len(chosen), dtype=torch.float64)
    examples: list[dict[str, float]] = [{} for _ in chosen.tolist()]
    scored = [sentence for sentence in tokens if len(sentence) >= 2]
    picked = chosen.to(run.device)

    def compute(batch: Batch) -> list[None]:
        n = batch.words.shape[1]
        with torch.no_grad():
            # Marginals where a span begins, less those where one ends: summed up, what lies over each word.
            steps = torch.zeros(len(batch) * (n + 1), len(chosen), dtype=torch.float64, device=run.device)
            surest: list[tuple[Tensor, Tensor]] = []
            for share, cells in _symbol_marginals(grammar, batch, picked):
                start, end = cells.div(n + 1, rounding_mode="floor"), cells % (n + 1)
                sentence = start.div(n + 1, rounding_mode="floor")
                steps.index_add_(0, start, share.double())
                steps.index_add_(0, sentence * (n + 1) + end, share.double().neg_())
                values, rows = share.topk(min(most, len(share)), 0)
                surest.append((values, cells[rows]))
            over = steps.view(len(batch), n + 1, -1).cumsum(1)[:, :n].cpu()
            below.index_add_(0, batch.words.flatten().cpu(), over.flatten(0, 1))
            values, places = (torch.cat(parts) for parts in zip(*surest, strict=True))  # [candidates, chosen]
            values, order = values.topk(min(4 * most, len(values)), 0)
            places = places.gather(0, order)
        for k, (column, column_places) in enumerate(zip(values.T.tolist(), places.T.tolist(), strict=True)):
            for value, cell in zip(column, column_places, strict=True):
                b, i, j = cell // (n + 1) ** 2, cell // (n + 1) % (n + 1), cell % (n + 1)
                if value > 0:
                    text = " ".join(scored[batch.indices[b]][i:j])
                    examples[k][text] = max(value, examples[k].get(text, 0.0))
            best = sorted(examples[k].items(), key=lambda item: -item[1])[:most]
            examples[k] = dict(best)
        return [None] * len(batch)

    in_batches(run, tokens, compute, lambda: None)
    below[0] = 0.0  # padding
    return [
        (top_words(run, below[:, k] / below[:, k].sum().clamp(min=math.ulp(0.0)), most), list(examples[k].items()))
        for k in range(len(chosen))
    ]


def top_words(run: TrainedModel, shares: Tensor, most: int = 5) -> list[Weighted]:
    """Return the words with the largest shares."""
    values, ids = shares.topk(min(most, len(shares)))
    words = run.vocabulary.words
    return [(words[i], value) for value, i in zip(values.tolist(), ids.tolist(), strict=True) if value > 0]
