"""Initial weights: those of another run, or word embeddings from neighbour counts.

Words with similar neighbours then start with similar embeddings. With random embeddings a grammar first has to find out
which words behave alike. That is the slowest part of training, a plateau whose length depends on the seed. Counts of
neighbouring words provide most of this information at once.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simplepcfg.data.encoded_text import EncodedText
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.errors import InputError
from simplepcfg.models import Model
from simplepcfg.runs.config.schema import RunConfig
from simplepcfg.runs.corpus import Corpus
from simplepcfg.runs.run_folder import load_run
from simplepcfg.runs.tensor_files import load_weights

# Keys of a model that may differ between the two runs: sizes that may grow, and those of the random initialisation,
# which the loaded weights replace.
GROWING = ("nonterminals", "preterminals", "states")
INITIAL = ("init_logit_std", "init_emission_logit_std", "dedicated_preterminals")


def initialise_weights(model: Model, config: RunConfig, corpus: Corpus) -> None:
    """Initialise weights from another run or from word neighbours, where the configuration asks for it."""
    settings = config.training
    if settings.start_from is not None:
        initialise_from_run(model, corpus.vocabulary, settings.start_from, settings.start_noise)
    elif settings.word_neighbours:
        set_neighbour_embeddings(model, corpus.train, settings.word_neighbours, config.seed)


def initialise_from_run(model: nn.Module, vocabulary: Vocabulary, directory: str | Path, noise: float) -> None:
    """Load the best weights of the run in `directory` into `model`, splitting its symbols if `model` has more.

    If `model` has m times as many symbols, each becomes m copies that share its probability evenly, so that the larger
    grammar equals the smaller one but for `noise`. `noise` is the standard deviation of what is added to the copies'
    embeddings, relative to that of the embeddings; training needs it to tell the copies of a symbol from each other.

    Raises InputError if the vocabulary or another key of the models differs.
    """
    start = load_run(directory, device="cpu")
    if start.vocabulary.words != vocabulary.words:
        advice = "both need the same training text and settings of data"
        raise InputError(f"training.start_from = {directory}: its vocabulary is another; {advice}")
    old, new = start.config.model, model.config
    for key in sorted(vars(old) | vars(new)):
        before, after = getattr(old, key, None), getattr(new, key, None)
        if before != after and key not in (*GROWING, *INITIAL):
            raise InputError(
                f"training.start_from = {directory}: its model.{key} is {before}, here {after}; make them equal"
            )
    weights = start.model.state_dict()
    if hasattr(model, "symbol_groups") and getattr(new, "shared_embeddings", True):
        sizes = start.model.symbol_groups, model.symbol_groups
        for name, table in model.state_dict().items():
            # Tables of symbols have one row a symbol, those of the root one a nonterminal; all grow by the same factor.
            if name == "symbols" or (name in weights and weights[name].shape[:1] != table.shape[:1]):
                weights[name] = split_symbols(weights[name], *sizes, noise, str(directory))  # type: ignore[arg-type]
    load_weights(model, weights, Path(directory))


def split_symbols(table: Tensor, before: tuple[int, ...], after: tuple[int, ...], noise: float, name: str) -> Tensor:
    """Repeat every row of `table` m times, where sizes `after` are m times `before`, and add noise if m > 1.

    Copies of a symbol are adjacent. Raises InputError, with the run's `name`, if the sizes are no such multiples.
    """
    times = after[0] // before[0]
    if times < 1 or after != tuple(times * size for size in before):
        old, new = (" and ".join(map(str, sizes)) for sizes in (before, after))
        raise InputError(
            f"training.start_from = {name}: its {old} symbols cannot become {new}; multiply all by the same number"
        )
    copies = table.repeat_interleave(times, 0)
    return copies + torch.randn_like(copies) * (noise * table.std()) if times > 1 else copies


# Exponent that flattens the distribution of neighbours, as in word2vec, since frequent neighbours are less informative.
FLATTENING = 0.75
# Power iterations that make the singular vectors of a random sketch more accurate; a few are enough.
ITERATIONS = 2
NO_WORD = 0  # the id of padding, here the neighbour of a sentence's first and last word


@torch.no_grad()
def set_neighbour_embeddings(model: Any, sentences: Sequence[Sequence[int]], share: float, seed: int) -> None:
    """Rotate every word embedding of `model` towards the neighbour vector of its word, keeping its norm.

    `sentences` are the encoded training sentences. `share` is the cosine between the new embedding and the neighbour
    vector, if the old one was orthogonal to it, as a random one nearly is: 0 changes nothing, 1 keeps nothing of the
    old direction. Raises InputError for a model without word embeddings.
    """
    if not hasattr(model, "word_embeddings"):
        raise InputError(
            f"training.word_neighbours = {share}: a model of kind {model.config.kind} has no word embeddings; "
            "set it to 0"
        )
    table, width = model.word_embeddings, model.config.embedding
    own = table[:, :width].cpu()  # A further column may hold a bias.
    vectors = neighbour_vectors(sentences, len(own) + 1, width, torch.Generator().manual_seed(seed)).to(own.dtype)
    norms = own.norm(dim=1, keepdim=True)
    rotated = nn.functional.normalize(share * vectors + (1 - share**2) ** 0.5 * own / norms)
    has_neighbours = vectors.any(1, keepdim=True)
    table[:, :width] = torch.where(has_neighbours, rotated * norms, own).to(table.device)


def neighbour_vectors(
    sentences: Sequence[Sequence[int]], vocabulary_size: int, width: int, generator: torch.Generator
) -> Tensor:
    """Return unit vectors [vocabulary_size − 1, width] of all words but padding; 0 for a word that does not occur.

    The association of a word with a neighbour c on one side is the positive part of log p(c | word) / q(c), where q(c)
    is the flattened frequency of c on that side (positive pointwise mutual information). The vectors are the
    normalised rows of U S, for the truncated singular value decomposition U S Vᵀ of the matrix of associations.
    """
    words, neighbours, counts = _count_neighbours(sentences, vocabulary_size)
    by_word = counts.new_zeros(vocabulary_size).index_add_(0, words, counts) / 2  # Each has two neighbours.
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
    """Return words, their neighbours (c on the left, vocabulary_size + c on the right), and the counts of the pairs."""
    text = sentences if isinstance(sentences, EncodedText) else EncodedText.of(sentences)
    pairs = counts = np.zeros(0, dtype=np.int64)
    for block in text.blocks():
        block_pairs, block_counts = np.unique(_pairs(block, vocabulary_size), return_counts=True)
        pairs, places = np.unique(np.concatenate([pairs, block_pairs]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, block_counts]), minlength=len(pairs)).astype(np.int64)
    words, neighbours = np.divmod(pairs, 2 * vocabulary_size)
    return torch.from_numpy(words), torch.from_numpy(neighbours), torch.from_numpy(counts).double()


def _pairs(text: EncodedText, vocabulary_size: int) -> NDArray[np.int64]:
    """Return a code, word · 2 · vocabulary_size + neighbour, for both neighbours of each word."""
    line = np.concatenate([[NO_WORD], text.with_marks(NO_WORD, after=True)])
    before, after = line[:-1], line[1:]
    pairs = np.concatenate(
        [
            after * 2 * vocabulary_size + before,  # a word and what stands before it
            before * 2 * vocabulary_size + vocabulary_size + after,
        ]
    )
    return pairs[pairs >= 2 * vocabulary_size]  # Smaller codes have NO_WORD in place of the word.


def largest_singular_vectors(matrix: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the left singular vectors [rows, count] and values [count] of a sparse matrix, by a random sketch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # Torch warns that CSR tensors are beta.
        transposed, matrix = matrix.T.to_sparse_csr(), matrix.to_sparse_csr()
    basis = torch.linalg.qr(matrix @ torch.randn(matrix.shape[1], count, generator=generator)).Q
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(matrix @ (transposed @ basis)).Q
    # Only the left singular vectors of the small matrix basisᵀ · matrix are needed, so its Gram matrix is enough.
    small = (transposed @ basis).double()
    squares, vectors = torch.linalg.eigh(small.T @ small)
    return basis @ vectors.float(), squares.clamp_(min=0).sqrt().float()
