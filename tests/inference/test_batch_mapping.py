"""Batches of rows with trees: as plain mappings, by Hugging Face datasets, and by a Ray cluster that loses a node."""

import pickle
import time

import pytest

from simplepcfg.inference.batch_mapping import ParseRows
from simplepcfg.inference.run import load

SENTENCES = [f"the {adjective} dog sleeps" for adjective in ("old", "small", "new", "good")] * 6


def trees_of(sentences: list[str]) -> list[str]:
    return [tree.to_brackets() for tree in load("english").parse_spans(sentences)]


def test_a_batch_gets_a_column_of_trees() -> None:
    rows = ParseRows("english", "sentence", tree="parse")
    batch = {"sentence": SENTENCES[:2], "number": [1, 2]}
    assert rows(batch) == {**batch, "parse": trees_of(SENTENCES[:2])}
    assert len(pickle.dumps(rows)) < 1000  # without the grammar


@pytest.mark.peer
def test_by_datasets_in_two_processes() -> None:
    datasets = pytest.importorskip("datasets")
    text = datasets.Dataset.from_dict({"text": SENTENCES})
    parsed = text.map(ParseRows("english"), batched=True, batch_size=4, num_proc=2)
    assert parsed["tree"][:] == trees_of(SENTENCES)


class SlowRows(ParseRows):
    """Takes so long that a node can be removed in the middle."""

    def __call__(self, batch):
        time.sleep(1)
        return super().__call__({key: list(values) for key, values in batch.items()})


@pytest.mark.peer
def test_by_a_ray_cluster_that_loses_a_node() -> None:
    """Nothing is lost and nothing comes twice."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, logging_level="ERROR")
    try:
        rows = ray.data.from_items([{"id": number, "text": text} for number, text in enumerate(SENTENCES)])
        mapped = rows.repartition(12).map_batches(
            SlowRows, fn_constructor_args=("english",), batch_size=2, concurrency=(1, 2), num_cpus=0.5
        )
        results = []
        for row in mapped.iter_rows():
            if not results:
                cluster.remove_node(second, allow_graceful=False)
            results.append(row)
    finally:
        ray.shutdown()
        cluster.shutdown()
    results.sort(key=lambda row: row["id"])
    assert [row["id"] for row in results] == list(range(len(SENTENCES)))
    assert [row["tree"] for row in results] == trees_of(SENTENCES)
