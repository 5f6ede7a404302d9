"""Words that begin alike where their neighbours are alike, so that symbols find classes of words from the first step.

Drawn at random, word embeddings say nothing, and a grammar first has to find out which words behave alike: the
slowest part of learning, on a plateau whose length is a matter of luck. Counting neighbours tells most of it at once.
"""

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Common neighbours tell less than their counts say: the usual remedy is to flatten their distribution.
FLATTENING = 0.75
# A power iteration sharpens what a random sketch sees of the singular vectors; more than a few change nothing.
ITERATIONS = 2
NO_WORD = 0  # the padding's id: beside a sentence's first and last word


@torch.no_grad()
def turn_to_neighbours(model: Any, sentences: Sequence[Sequence[int]], share: float, seed: int) -> None:
    """Turn every word embedding of `model` towards its word's neighbours in `sentences`; its length stays.

    `share` is the cosine between the new direction and the neighbours', where the old one is at right angles to it, as
    a random one nearly is: 0 leaves everything, 1 keeps nothing of the old direction.
    """
    table, width = model.word_embeddings, model.config.embedding
    own = table[:, :width].cpu()  # beyond may be a bias
    vectors = neighbour_vectors(sentences, len(own) + 1, width, torch.Generator().manual_seed(seed)).to(own.dtype)
    size = own.norm(dim=1, keepdim=True)
    turned = nn.functional.normalize(share * vectors + (1 - share**2) ** 0.5 * own / size)
    known = vectors.any(1, keepdim=True)
    table[:, :width] = torch.where(known, turned * size, own).to(table.device)


def neighbour_vectors(
    sentences: Sequence[Sequence[int]], vocabulary_size: int, width: int, generator: torch.Generator
) -> Tensor:
    """``[vocabulary_size − 1, width]``: of every word but padding, a row of length 1; 0 if nothing is known of it.

    A word's association with a neighbour c on one side is log p(c | word) / q(c) where that is positive, with q(c) the
    flattened frequency of c on that side. The rows are those of the matrix of associations A seen from its largest
    singular vectors, U S where A ≈ U S Vᵀ.
    """
    words, neighbours, counts = _count_neighbours(sentences, vocabulary_size)
    by_word = counts.new_zeros(vocabulary_size).index_add_(0, words, counts) / 2  # each has a neighbour on either side
    by_neighbour = counts.new_zeros(2 * vocabulary_size).index_add_(0, neighbours, counts).pow(FLATTENING)
    expected = (by_neighbour.view(2, -1) / by_neighbour.view(2, -1).sum(1, keepdim=True)).flatten()
    association = (counts / by_word[words] / expected[neighbours]).log()
    kept = association > 0
    places = torch.stack([words[kept] - 1, neighbours[kept]])
    shape = (vocabulary_size - 1, 2 * vocabulary_size)
    matrix = torch.sparse_coo_tensor(places, association[kept].float(), shape, check_invariants=True)
    left, values = largest_singular_vectors(matrix, min(width, vocabulary_size - 1), generator)
    rows = nn.functional.normalize(left * values)
    return nn.functional.pad(rows, (0, width - rows.shape[1]))


def _count_neighbours(sentences: Sequence[Sequence[int]], vocabulary_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Words, their neighbours (on the left c, on the right vocabulary_size + c), and how often each pair occurs."""
    ends = [[NO_WORD]] * len(sentences)
    text = np.fromiter(chain([NO_WORD], *chain.from_iterable(zip(sentences, ends, strict=True))), np.int64)
    before, after = text[:-1], text[1:]
    pairs = np.concatenate(
        [
            after * 2 * vocabulary_size + before,  # a word and what stands before it
            before * 2 * vocabulary_size + vocabulary_size + after,
        ]
    )
    pairs, counts = np.unique(pairs[pairs >= 2 * vocabulary_size], return_counts=True)  # below, the word is NO_WORD
    words, neighbours = np.divmod(pairs, 2 * vocabulary_size)
    return torch.from_numpy(words), torch.from_numpy(neighbours), torch.from_numpy(counts).double()


def largest_singular_vectors(matrix: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Left singular vectors ``[rows, count]`` and values ``[count]`` of a sparse matrix, by a random sketch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # that its CSR tensors are new, and unchecked
        turned, matrix = matrix.T.to_sparse_csr(), matrix.to_sparse_csr()
    basis = torch.linalg.qr(matrix @ torch.randn(matrix.shape[1], count, generator=generator)).Q
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(matrix @ (turned @ basis)).Q
    # Of the small matrix basisᵀ · matrix only the left side is asked for, so its Gram matrix will do.
    small = (turned @ basis).double()
    squares, vectors = torch.linalg.eigh(small.T @ small)
    return basis @ vectors.float(), squares.clamp_(min=0).sqrt().float()
