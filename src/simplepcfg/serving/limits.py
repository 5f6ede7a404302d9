"""Limits on how much one request may ask for, and how often."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MOST_CLIENTS = 4096  # of which the rate is remembered


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that a request may not exceed."""

    words: int = 80  # of a sentence
    characters: int = 4000  # of a sentence
    body_bytes: int = 1 << 16
    trees: int = 20  # k of k_best, samples of sample_trees
    next_words: int = 50
    requests_a_second: float = 50.0  # of one client, on average
    burst: int = 200  # requests of one client at once
    waiting: int = 512  # requests of all clients at once


class RateLimiter:
    """A token bucket for each client: so many requests a second on average, and some at once."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def wait_seconds(self, client: str) -> float:
        """Return 0 if the request may pass, which uses a token; else the seconds until there is one."""
        now = self._clock()
        tokens, counted = self._clients.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted) * self._rate)
        allowed = tokens >= 1
        self._clients[client] = (tokens - 1 if allowed else tokens, now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate
