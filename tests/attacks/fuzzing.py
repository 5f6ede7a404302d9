"""Inputs for the fuzz targets, drawn by hypothesis: near-valid files with damage, and plain noise."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from attacks.fuzz_targets import Targets
from attacks.outcomes import Outcome

# How large a part of all inputs a target gets; a command takes as long as a hundred small files.
SHARES = {
    "tree reader": 22,
    "text reader": 22,
    "vocabulary": 8,
    "configuration": 10,
    "constraints": 15,
    "JSON of results": 10,
    "checkpoint loader": 12,
    "command line": 1,
}

ODD = [
    "\ufeff",
    "\x00",
    "\r",
    "\r\n",
    "\u2028",
    "\xa0",
    "\x85",
    "\x1f\x8b",
    "é",
    "e\u0301",
    "\U0001f600",
    "\ud7ff",
    "-LRB-",
    "<eos>",
]
WORD = st.one_of(st.sampled_from(["the", "dog", "-NONE-", "N", "<unk>", "1,000", '"', *ODD]), st.text(max_size=5))


def trees() -> st.SearchStrategy[str]:
    """Bracketed trees of all shapes, with brackets, labels and words lost at random."""
    label = st.sampled_from(["S", "NP", "", "-NONE-", "X", "("])
    leaf = st.builds(lambda tag, word: f"({tag} {word})", label, WORD)
    tree = st.recursive(
        leaf,
        lambda inner: st.builds(lambda tag, parts: f"({tag} {' '.join(parts)})", label, st.lists(inner, max_size=4)),
    )
    deep = st.builds(lambda depth, tail: "(S " * depth + "(N a)" + ")" * depth + tail, st.integers(0, 3000), tree)
    return st.builds(
        lambda items, apart: apart.join(items),
        st.lists(st.one_of(tree, tree, deep, WORD)),
        st.sampled_from(["\n", " ", ""]),
    )


def lines() -> st.SearchStrategy[str]:
    """Text, and what looks like other formats."""
    columns = st.lists(WORD, min_size=9, max_size=11).map("\t".join)
    conllu = st.builds(
        lambda number, form, head: "\t".join([number, form, *"____", head, *"___"]),
        st.sampled_from(["1", "2", "12", "1-2", "8.1", "x"]),
        WORD,
        st.sampled_from(["0", "2", "_", "the"]),
    )
    line = st.one_of(
        st.lists(WORD).map(" ".join),
        columns.map(lambda rest: f"1\t{rest}"),
        st.lists(conllu, min_size=1).map("\n".join),
        st.sampled_from(["# text = a", "# sent_id = 1", "# a comment", "", "{", "[", "<DOC>", "(the dog)"]),
    )
    return st.lists(line).map("\n".join)


def json_like() -> st.SearchStrategy[str]:
    """JSON of any kind, constraints with odd numbers, and lines cut short."""
    number = st.one_of(st.integers(-3, 12), st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=3))
    span = st.lists(number, max_size=4)
    constraint = st.dictionaries(
        st.sampled_from(["require", "forbid", "bonus", "other"]), st.one_of(st.lists(span), number)
    )
    result = st.dictionaries(
        st.sampled_from(["row", "language", "seed", "report"]),
        st.one_of(number, st.dictionaries(st.just("sentence_f1"), number)),
    )
    anything = st.recursive(
        number, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=4), inner)), max_leaves=8
    )
    import json

    one = st.one_of(constraint, constraint, result, anything).map(json.dumps)
    cut = st.builds(lambda text, size: text[:size], one, st.integers(0, 40))
    deep = st.integers(1, 30_000).map(lambda depth: "[" * depth)
    return st.lists(st.one_of(one, one, cut, deep, st.just("")), max_size=5).map("\n".join)


def configurations() -> st.SearchStrategy[str]:
    """An override and a file of TOML with real keys, odd values and damage."""
    from simplepcfg.runs.config.keys import all_keys

    keys = sorted({key.name for key in all_keys()})
    value = st.one_of(
        st.integers().map(str),
        st.floats().map(str),
        st.sampled_from(["true", '"x"', "[1, 2]", "{}", "'", '"""', "1e400", "-0", "1979-05-27", "9" * 5000]),
        st.text(max_size=8),
    )
    key = st.one_of(
        st.sampled_from(keys), st.sampled_from(["model", "data", "training", "model.kind", ""]), st.text(max_size=6)
    )
    item = st.builds("{} = {}".format, key, value)
    kind = st.sampled_from(["sn-pcfg", "hmm", "c-pcfg", "no-such"]).map('model.kind = "{}"'.format)
    override = st.builds("{}={}".format, key, value).map(lambda text: text.replace("\n", " "))
    table = st.sampled_from(["[model]", "[training]", "[data]", "[[model]]", "[", "[a.b]"])
    return st.builds(
        lambda first, rest: "\n".join([first, *rest]),
        st.one_of(st.just(""), override),
        st.lists(st.one_of(item, item, kind, table), max_size=6),
    )


def command_lines() -> st.SearchStrategy[str]:
    """Commands with real options, real and odd values, in any order."""
    options = [
        *("--json", "--k", "--decode", "viterbi", "--format", "json", "--samples", "--seed", "--count", "--max-length"),
        *(
            "--temperature",
            "--top",
            "--surprisal",
            "--quiet",
            "--interval",
            "--compare",
        ),
        *(
            "--with",
            "--ensemble",
            "--predictions",
            "--device",
            "cpu",
            "--out",
            "OUT",
        ),
        *("--set", "training.epochs=0", "--help", "--version", "--split", "90,5,5"),
    ]
    values = [
        "RUN",
        "TEXT",
        "DIR",
        "-",
        "''",
        "0",
        "1",
        "-1",
        "nan",
        "inf",
        "1e400",
        "99999999999999999999",
        "/dev/null",
        "/",
        "é",
        "a=b",
        "RUN/config.toml",
    ]
    first = st.sampled_from(
        [
            "parse",
            "score",
            "evaluate",
            "complete",
            "sample",
            "show",
            "prepare brackets",
            "prepare ptb",
            "",
            "trian",
        ]
    )
    word = st.one_of(
        st.sampled_from(options),
        st.sampled_from(values),
        st.text(max_size=4).map(lambda text: "'" + text.replace("'", "") + "'"),
    )
    return st.builds(
        lambda a, rest: " ".join([a, *rest]),
        first,
        st.lists(st.one_of(st.just("RUN"), st.just("TEXT"), word), max_size=6),
    )


def damaged(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """The text as UTF-8, now and then in another encoding or with some bytes in between."""

    def insert(text: str, place: float, odd: bytes) -> bytes:
        content = text.encode("utf-8", "replace")
        at = int(place * len(content))
        return content[:at] + odd + content[at:]

    whole = strategy.map(lambda text: text.encode("utf-8", "replace"))
    broken = st.builds(
        insert, strategy, st.floats(0, 1), st.one_of(st.binary(max_size=4), st.sampled_from([s.encode() for s in ODD]))
    )
    other = strategy.map(lambda text: text.encode("utf-16"))
    return st.one_of(whole, whole, whole, broken, other, st.binary(max_size=80))


def strategies() -> dict[str, st.SearchStrategy[bytes]]:
    """Inputs of each target."""
    words = st.lists(WORD).map(lambda items: "\n".join(["<pad>", "<unk>", *items, ""]))
    return {
        "tree reader": damaged(trees()),
        "text reader": damaged(lines()),
        "vocabulary": damaged(words),
        "configuration": damaged(configurations()),
        "constraints": damaged(json_like()),
        "JSON of results": damaged(json_like()),
        "checkpoint loader": st.binary(max_size=12),
        "command line": command_lines().map(lambda text: text.encode("utf-8", "replace")),
    }


def fuzz(
    count: int, folder: Path, run: Path | None = None, first_seed: int = 0, seconds: float | None = None
) -> list[Outcome]:
    """Draw about `count` inputs in all, fewer if `seconds` are over; findings have the input that repeats them."""
    targets = Targets(folder, run).all()
    total = sum(SHARES[name] for name in targets)
    drawn = strategies()
    left = {name: max(1, count * SHARES[name] // total) for name in targets}
    rounds = -(-max(left.values()) // ROUND)
    parts = {name: -(-size // rounds) for name, size in left.items()}
    found = {name: Outcome(f"fuzzing: {name}") for name in targets}
    began = time.monotonic()
    # Rounds with seeds of their own, since hypothesis remembers what it has drawn within one; all targets in turn.
    for number in range(rounds):
        for name, target in targets.items():
            if left[name] and (seconds is None or time.monotonic() - began < seconds):
                size = min(parts[name], left[name])
                _round(found[name], target, drawn[name], size, first_seed + ROUND * number)
                left[name] -= size
    return list(found.values())


ROUND = 500


def _round(
    outcome: Outcome, target: Callable[[bytes], str | None], inputs: st.SearchStrategy[bytes], count: int, number: int
) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def one(data: bytes) -> None:
        finding = target(data)
        outcome.count(None if finding is None else f"{finding} by {data[:200]!r}")

    one()


if os.name != "posix":
    raise SystemExit("fuzzing limits time by SIGALRM, which this system does not have")
