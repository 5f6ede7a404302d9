"""Checks of requests for random sentences, whatever the grammar."""

from simplepcfg.errors import InputError

# The table of lengths costs their square; nobody waits for more, and no sentence has so many words.
MOST_WORDS = 10_000


def check_request(count: int, max_length: int) -> None:
    """Refuse what no grammar of binary rules can give."""
    if count < 1:
        raise InputError(f"count = {count}; ask for at least one sentence")
    if max_length < 2:
        raise InputError(f"max_length = {max_length}; the shortest sentence of this grammar has two words")
    if max_length > MOST_WORDS:
        raise InputError(f"max_length = {max_length}; {MOST_WORDS} words are the most that can be drawn")
