"""A function from batches of rows to rows with trees, for engines that map batches: Ray Data, Hugging Face datasets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from simplepcfg.inference.run import Run, load
from simplepcfg.runs.processes import leave_threads_behind


class ParseRows:
    """Adds a column with the bracketed tree of each sentence to a batch, a mapping from columns to values.

    The run is loaded once in each process or actor, when the first batch comes, and is not sent between them.

        dataset.map(ParseRows("english"), batched=True, num_proc=8)                       # Hugging Face datasets
        dataset.map_batches(ParseRows, fn_constructor_args=("english",), concurrency=8)   # Ray Data
    """

    def __init__(self, run: str | Path, column: str = "text", *, tree: str = "tree", device: str = "auto") -> None:
        self._source, self._column, self._tree, self._device = str(run), column, tree, device
        self._run: Run | None = None
        leave_threads_behind()  # of this process, if an engine forks it

    def __call__(self, batch: Mapping[str, Sequence[object]]) -> dict[str, Sequence[object]]:
        """Return the batch with a column of trees."""
        if self._run is None:
            self._run = load(self._source, device=self._device)
        sentences = [str(sentence) for sentence in batch[self._column]]
        return {**batch, self._tree: [tree.to_brackets() for tree in self._run.parse_spans(sentences)]}

    def __getstate__(self) -> dict[str, object]:
        """Return what is sent to another process: everything but the loaded run."""
        return {**self.__dict__, "_run": None}
