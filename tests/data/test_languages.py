"""Words and sentences of French, German and Spanish."""
# ruff: noqa: E501

import pytest

from simplepcfg.data.languages import LANGUAGES, abbreviations, split_words, splitter
from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.data.raw_text import sentences_of_lines, split_raw
from simplepcfg.data.readers import read_sentences

WORDS = [
    ("fr", "L'homme, donne-moi ça !", "L' homme , donne -moi ça !"),
    ("fr", "Y a-t-il quelqu’un aujourd’hui ? Rends-le-moi.", "Y a -t-il quelqu’un aujourd’hui ? Rends -le -moi ."),
    ("fr", "Va-t'en au rendez-vous du chef-d'œuvre !", "Va -t' en au rendez-vous du chef-d'œuvre !"),
    ("fr", "« Celui-ci, lui-même, là-bas »--oui, à M. Dupont.", "« Celui-ci , lui-même , là-bas » -- oui , à M. Dupont ."),
    ("de", "»Am 3. Mai«, sagte Dr. Müller, »gibt's Vor- und Nachteile.«",
     "» Am 3. Mai « , sagte Dr. Müller , » gibt 's Vor- und Nachteile . «"),
    ("de", "„Nein“ – 's ist 'ne E-Mail zum Haus für 1.000,50 Euro.", "„ Nein “ – 's ist 'ne E-Mail zum Haus für 1.000,50 Euro ."),
    ("es", "-¿Qué? -dijo el Sr. Pérez-. ¡Ven! —Sí—; del mar.", "- ¿ Qué ? - dijo el Sr. Pérez - . ¡ Ven ! — Sí — ; del mar ."),
    ("es", "O'Neill tiene -3.000 libros físico-químicos...", "O'Neill tiene -3.000 libros físico-químicos ..."),
    ("de", "Siehe 'https://a.de/b_c?d=1&e', oder: Me@web.de.", "Siehe ' https://a.de/b_c?d=1&e ' , oder : Me@web.de ."),
    ("it", "L'uomo e l’altra, oggi.", "L' uomo e l’ altra , oggi ."),
]  # fmt: skip


@pytest.mark.parametrize(("language", "sentence", "words"), WORDS)
def test_words(language: str, sentence: str, words: str) -> None:
    assert split_words(sentence, language) == words.split() == splitter(language)(sentence)
    assert Preprocessing(tokenize=True, language=language).split(sentence) == words.split()


@pytest.mark.parametrize(
    ("language", "sentence", "words"), [*WORDS, ("fr", "", ""), ("de", "THISISPROTECTED000 a", "")]
)
def test_words_are_pieces_of_the_sentence_and_are_not_split_further(language: str, sentence: str, words: str) -> None:
    split = split_words(sentence, language)
    assert "".join(split) == "".join(sentence.split())
    assert split_words(" ".join(split), language) == split


def test_more_addresses_than_moses_can_tell_apart() -> None:
    assert split_words("a@b.de " * 1200, "de") == ["a@b.de"] * 1200


SENTENCES = [
    ("fr", "— Misérable ! murmura Violette. Elle vit M. Dupont.", ["— Misérable ! murmura Violette.", "Elle vit M. Dupont."]),
    ("fr", "Il dit. « Viens ! » Elle part.", ["Il dit.", "«Viens ! »", "Elle part."]),
    ("fr", "Il rit… Elle aussi... et lui.", ["Il rit…", "Elle aussi... et lui."]),
    ("de", "»Am 3. Mai kam Dr. Müller.« »Wer?« fragte er.", ["»Am 3. Mai kam Dr. Müller.«", "»Wer?« fragte er."]),
    ("de", "Siehe Abb. 3 hier. Nun Nr. 5.", ["Siehe Abb. 3 hier.", "Nun Nr. 5."]),
    ("es", "¡Bah! -añadió el Sr. D. Juan-. ¿No? Sí... Luego.", ["¡Bah! -añadió el Sr. D. Juan-.", "¿No?", "Sí...", "Luego."]),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text", "sentences"), SENTENCES)
def test_sentences(language: str, text: str, sentences: list[str], tmp_path) -> None:
    assert list(sentences_of_lines(text.split("\n"), language)) == sentences
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    assert list(read_sentences(path, raw=True, language=language)) == split_raw(text, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_rules(language: str) -> None:
    assert splitter(language)("Yes, 3.") == ["Yes", ",", "3", "."] or language == "de"
    assert all(word == word.lower() for word in abbreviations(language))


def test_a_language_without_rules_is_refused() -> None:
    with pytest.raises(ValueError, match="language"):
        Preprocessing(language="xx")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "token"), [("à_partir_de", "de"), ("Aujourd'_hui", "aujourd'hui"), ("_", "_"), ("a_", "a_")]
)
def test_a_fixed_phrase_is_known_by_its_last_word(word: str, token: str) -> None:
    assert Preprocessing(language="fr", punctuation="keep").apply([word]).tokens == [token]
    assert Preprocessing(punctuation="keep").apply([word]).tokens == [word.lower()]
