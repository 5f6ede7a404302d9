"""Ways to damage a file, drawn from a generator so that each can be repeated."""

import random
from pathlib import Path


def flip_bits(path: Path, rng: random.Random, count: int = 1, start: int = 0) -> None:
    """Flip `count` different bits at or after byte `start`."""
    content = bytearray(path.read_bytes())
    for bit in rng.sample(range(8 * start, 8 * len(content)), count):
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def zero_block(path: Path, rng: random.Random, size: int = 512) -> None:
    """A sector that was lost: zeros. The block is moved until it changes something."""
    content = bytearray(path.read_bytes())
    while True:
        start = rng.randrange(max(1, len(content) - size))
        if any(content[start : start + size]):
            break
    content[start : start + size] = bytes(len(content[start : start + size]))
    path.write_bytes(content)


def truncate(path: Path, rng: random.Random) -> None:
    """Lose any number of bytes at the end."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def swap_blocks(path: Path, rng: random.Random, size: int = 64) -> None:
    """Two blocks of different content in each other's place."""
    content = bytearray(path.read_bytes())
    while True:
        a, b = sorted(rng.sample(range(len(content) - size), 2))
        if b - a >= size and content[a : a + size] != content[b : b + size]:
            break
    content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]
    path.write_bytes(content)


KINDS = {
    "one bit": lambda path, rng: flip_bits(path, rng, 1),
    "100 bits": lambda path, rng: flip_bits(path, rng, 100),
    "a lost sector": zero_block,
    "cut off": truncate,
    "swapped blocks": swap_blocks,
}
