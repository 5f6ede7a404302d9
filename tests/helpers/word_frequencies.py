"""The language model that every grammar has to beat: words drawn one by one by their frequencies."""

from collections.abc import Sequence

import torch


def unigram_perplexity(
    train: Sequence[Sequence[int]], sentences: Sequence[Sequence[int]], vocabulary_size: int
) -> float:
    """Return the perplexity of sentences of two words or more by add-one smoothed counts of words and ends."""
    counts = torch.ones(vocabulary_size + 1, dtype=torch.float64)
    counts[0] = 0.0  # padding; the last one is the end of a sentence
    for sentence in train:
        counts += torch.bincount(torch.tensor([*sentence, vocabulary_size]), minlength=vocabulary_size + 1)
    scored = [torch.tensor([*sentence, vocabulary_size]) for sentence in sentences if len(sentence) > 1]
    log_shares = (counts / counts.sum()).log()
    return float(torch.exp(-torch.cat([log_shares[words] for words in scored]).mean()))
