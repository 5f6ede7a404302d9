"""The Viterbi algorithm with back-pointers, in float64: the reference of `simplepcfg.ops.viterbi`."""

import math

import torch
from torch import Tensor

from simplepcfg.ops.arguments import InsideArguments, Sentences, SimpleRules, check_arguments
from simplepcfg.ops.trees import LabelledTree, Trees, empty_trees, rule_log_probabilities, scored_trees, stack_trees

Node = tuple[int, int, int]  # i, j, symbol


def naive_viterbi(rules: SimpleRules, sentences: Sentences) -> Trees:
    """Find what `viterbi` finds, one sentence after the other."""
    arguments = check_arguments(rules, sentences)
    batch, n, _, _ = arguments.sizes
    if n == 1:
        return empty_trees(batch, arguments.log_emissions)
    with torch.no_grad():
        trees = stack_trees([naive_best_tree(arguments, b) for b in range(batch)], n, torch.device("cpu"))
    sentence = torch.arange(batch)
    log_rules = rule_log_probabilities(arguments.rules, sentence, trees)
    return scored_trees(trees, log_rules, arguments.log_emissions, arguments.span_bonus, sentence)


def naive_best_tree(arguments: InsideArguments, b: int) -> LabelledTree:
    """Find the most probable tree of sentence ``b``, one span and one split at a time."""
    _, n, nonterminals, _ = arguments.sizes
    if arguments.lengths is not None:
        n = int(arguments.lengths[b])
    root = _log_of_sentence(arguments.root, b, 1)
    left, right = _log_of_sentence(arguments.left, b, 2), _log_of_sentence(arguments.right, b, 2)
    beta: dict[tuple[int, int], Tensor] = {(i, i + 1): arguments.log_emissions[b, i].double() for i in range(n)}
    eta: dict[tuple[int, int], Tensor] = {}
    zeta: dict[tuple[int, int], Tensor] = {}
    split: dict[tuple[int, int], Tensor] = {}
    left_child: dict[tuple[int, int], Tensor] = {}
    right_child: dict[tuple[int, int], Tensor] = {}
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            if width > 1:
                scores = torch.stack([eta[i, k] + zeta[k, j] for k in range(i + 1, j)])
                beta[i, j], split[i, j] = scores.max(0)
                if arguments.span_bonus is not None:
                    beta[i, j] = beta[i, j] + arguments.span_bonus[b, i, j].double()
            columns = slice(nonterminals, None) if width == 1 else slice(0, nonterminals)
            eta[i, j], left_child[i, j] = (left[:, columns] + beta[i, j]).max(1)
            zeta[i, j], right_child[i, j] = (right[:, columns] + beta[i, j]).max(1)
    if n < 2 or float((root + beta[0, n]).max()) == -math.inf:
        return LabelledTree([], [], [], -math.inf)
    total, top = (root + beta[0, n]).max(0)
    spans, labels, tags = [], [], [-1] * n
    waiting: list[Node] = [(0, n, int(top))]
    while waiting:
        i, j, symbol = waiting.pop()
        if j - i == 1:
            tags[i] = symbol
            continue
        spans.append((i, j))
        labels.append(symbol)
        k = i + 1 + int(split[i, j][symbol])
        waiting.append((k, j, int(right_child[k, j][symbol])))
        waiting.append((i, k, int(left_child[i, k][symbol])))
    return LabelledTree(spans, labels, tags, float(total))


def _log_of_sentence(rules: Tensor, b: int, dims: int) -> Tensor:
    return (rules[b] if rules.dim() > dims else rules).double().log()
