"""How a server holds up: many requests at once, and many that are malformed.

    python benchmarks/serve_load.py [--nonterminals 512] [--length 40] [--at-once 50] [--rounds 1] [--malformed 1000]

Starts `simplepcfg serve` on an untrained model (time does not depend on weights), sends each question that the page
asks of itself so many times at once, and then malformed requests. Fails if a well-formed request gets anything but 200,
a malformed one anything but 4xx, or the server does not answer afterwards. Appends a row a question to
results/serve_load.csv.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import torch

from simplepcfg import Run
from simplepcfg.benchmarking.report import append_rows, environment
from simplepcfg.data.synthetic_grammar import generate_treebank
from simplepcfg.data.vocabulary import Vocabulary
from simplepcfg.models import build_model
from simplepcfg.runs.config.files import load_config

RESULTS = Path(__file__).parent / "results" / "serve_load.csv"
QUESTIONS = {"parse": {"svg": True}, "chart": {"svg": True, "symbols": 3}, "surprisal": {"svg": True}}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nonterminals", type=int, default=512)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--malformed", type=int, default=1000)
    arguments = parser.parse_args()
    words = [word for tree in generate_treebank(400, seed=0) for word in tree.words]
    with TemporaryDirectory() as folder:
        random_run(words, arguments.nonterminals).save(Path(folder) / "run")
        command = [sys.executable, "-m", "simplepcfg", "serve", f"{folder}/run", "--port", "0", "--rate", "1000000"]
        # As if started plainly: threads that a shell set for this script are not the server's.
        plain = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=plain)
        try:
            assert server.stdout is not None
            address = urlsplit(server.stdout.readline().strip()).netloc
            rows = [measure(address, question, words, arguments) for question in QUESTIONS]
            check_malformed(address, arguments.malformed)
            if ask(address, "/api/parse", json.dumps({"sentence": "the dog"}).encode())[0] != 200:
                raise SystemExit("the server no longer answers")
        finally:
            server.terminate()
            server.wait(30)
    append_rows(RESULTS, rows)


def random_run(words: list[str], nonterminals: int) -> Run:
    """An untrained model over these words."""
    sizes = [f"model.nonterminals={nonterminals}", f"model.preterminals={2 * nonterminals}"]
    config = load_config("sn-pcfg-small", sizes, environment={})
    vocabulary = Vocabulary.from_sentences([words], None, 1)
    torch.manual_seed(0)
    return Run(build_model(config.model, len(vocabulary)), vocabulary, config)


def ask(address: str, path: str, body: bytes, kind: str = "application/json") -> tuple[int, float]:
    """Status of one request on a connection of its own, and seconds until all of the answer was there."""
    began = time.perf_counter()
    connection = HTTPConnection(address, timeout=300)
    try:
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - began
    finally:
        connection.close()


def measure(address: str, question: str, words: list[str], arguments: argparse.Namespace) -> dict[str, object]:
    """Requests at once, several times; all must get an answer."""
    rng = random.Random(0)
    bodies = [
        json.dumps({"sentence": " ".join(rng.choices(words, k=arguments.length)), **QUESTIONS[question]}).encode()
        for _ in range(arguments.at_once * arguments.rounds)
    ]
    ask(address, f"/api/{question}", bodies[0])  # what is computed once is not counted
    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    began = time.perf_counter()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for part in range(arguments.rounds):
            sent = bodies[part * arguments.at_once : (part + 1) * arguments.at_once]
            for status, took in pool.map(lambda body: ask(address, f"/api/{question}", body), sent):
                statuses[status] += 1
                seconds.append(took)
    whole = time.perf_counter() - began
    if set(statuses) != {200}:
        raise SystemExit(f"{question}: statuses {dict(statuses)}; all should be 200")
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    print(f"{question}: p50 {cuts[9]:.2f} s, p95 {cuts[18]:.2f} s, {len(bodies) / whole:.1f} requests/s, no error")
    return {
        "question": question,
        "nonterminals": arguments.nonterminals,
        "length": arguments.length,
        "at_once": arguments.at_once,
        "requests": len(bodies),
        "errors": 0,
        "p50_s": round(cuts[9], 3),
        "p95_s": round(cuts[18], 3),
        "requests_per_s": round(len(bodies) / whole, 2),
        **environment(torch.device("cpu")),
    }


def check_malformed(address: str, count: int) -> None:
    """Broken requests of many kinds, ten at once, each of which must get 4xx."""
    rng = random.Random(1)

    def send(_: int) -> int:
        good = {"sentence": "the old dog saw the cat"}
        body, kind, path = json.dumps(good).encode(), "application/json", f"/api/{rng.choice(list(QUESTIONS))}"
        broken = [
            (rng.randbytes(rng.randint(0, 300)), kind, path),
            (body, "text/plain", path),
            (b"[" * 50_000, kind, path),
            (body + b" " * 70_000, kind, path),
            (json.dumps({"sentence": "dog " * 500}).encode(), kind, path),
            (json.dumps({**good, "run": "../../etc"}).encode(), kind, path),
            (json.dumps({**good, "file": "/etc/passwd"}).encode(), kind, path),
            (json.dumps({**good, "constraints": {"require": [[0, 99]]}}).encode(), kind, "/api/parse"),
            (json.dumps({**good, "k": 10**9}).encode(), kind, "/api/k_best"),
            (json.dumps({"sentence": "\ud800 dog"}).encode(), kind, path),
            (body, kind, "/api/../../etc/passwd"),
        ]
        chosen, sent_as, place = rng.choice(broken)
        return ask(address, place, chosen, sent_as)[0]

    with ThreadPoolExecutor(10) as pool:
        statuses = Counter(pool.map(send, range(count)))
    print(f"{count:,} malformed requests: {dict(sorted(statuses.items()))}")
    if any(not 400 <= status < 500 for status in statuses):
        raise SystemExit("malformed requests should get 4xx and nothing else")


if __name__ == "__main__":
    main()
