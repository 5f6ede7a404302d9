"""A language model of which every number can be computed by hand, for tests of what is asked of one."""

import math
from collections.abc import Mapping, Sequence

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.vocabulary import PAD, UNK, Vocabulary
from simplepcfg.linguistics.word_model import END, WordSurprisal


class UnigramModel:
    """A surprisal in nats for each word, whatever stands before it; 10 for any other word, 1 for the end."""

    def __init__(self, surprisals: Mapping[str, float], *, name: str = "toy", punctuation: str = "drop") -> None:
        self.name = name
        self.vocabulary = Vocabulary([PAD, UNK, *surprisals])
        self.preprocessing = Preprocessing.model_validate({"punctuation": punctuation})
        self._surprisals = dict(surprisals)

    def surprisal(
        self, sentences: Sequence[Sequence[str]], *, ends: bool = True, entropies: bool = False
    ) -> list[list[WordSurprisal]]:
        return [self._records(words) for words in sentences]

    def score(self, sentences: Sequence[Sequence[str]]) -> list[float]:
        return [
            -math.fsum(record.surprisal for record in records if record.surprisal is not None)
            for records in self.surprisal(sentences)
        ]

    def _records(self, words: Sequence[str]) -> list[WordSurprisal]:
        prepared = self.preprocessing.apply(words)
        records = [WordSurprisal(word, None, None, None) for word in words]
        for index, (place, token) in enumerate(zip(prepared.kept, prepared.tokens, strict=True)):
            known = token if token in self.vocabulary else UNK
            records[place] = WordSurprisal(words[place], known, self._surprisals.get(token, 10.0), 2.0 + index)
        return [*records, WordSurprisal(END, END, 1.0, 2.0 + len(prepared.tokens))]
