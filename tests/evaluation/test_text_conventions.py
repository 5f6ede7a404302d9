"""Which words and sentences there are to train and to validate on, before anything is measured."""

from simplepcfg.runs.config.schema import DataConfig
from simplepcfg.runs.corpus import prepare_corpus


def test_words_are_counted_before_long_sentences_are_left_out() -> None:
    train = ["a b", "a b c", "x x x x x x x x"]
    corpus = prepare_corpus(DataConfig(max_length=3, vocabulary_size=1), 0, train, ["a b a b a b"])
    assert corpus.vocabulary.encode(["x"]) != corpus.vocabulary.encode(["a"])
    assert corpus.vocabulary.encode(["a"]) == corpus.vocabulary.encode(["unseen"])
    assert [len(sentence) for sentence in corpus.train] == [2, 3]


def test_validation_is_not_cut() -> None:
    corpus = prepare_corpus(DataConfig(max_length=3), 0, ["a b", "b c"], ["a b c a b c", "a"])
    assert [len(sentence) for sentence in corpus.valid] == [6, 1]
