"""The kernels of inside, Viterbi and emissions compile for GPUs that are not there, and fit their memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import simplepcfg

SCRIPT = Path(__file__).parents[1] / "helpers" / "compiled_kernels.py"
SOURCE = Path(simplepcfg.__file__).parent.parent
# Shared memory that one block may use, in bytes, by compute capability: A100, RTX 30, RTX 40, H100.
SHARED_MEMORY = {80: 163 * 1024, 86: 99 * 1024, 89: 99 * 1024, 90: 227 * 1024}
VITERBI = {"max_plus_kernel", "split_maxima_kernel", "descend_kernel"}
EMISSIONS = {
    "exponentials_kernel",
    "recompute_rows_kernel",
    "finish_rows_kernel",
    "word_links_kernel",
    "word_log_probabilities_kernel",
    "word_logit_gradients_kernel",
    "add_occurrences_kernel",
    "scale_rows_kernel",
}
INSIDE = {
    "words_kernel",
    "inside_split_fwd_kernel",
    "inside_pair_fwd_kernel",
    "finish_rows_fwd_kernel",
    "top_fwd_kernel",
    "top_bwd_kernel",
    "inside_split_bwd_kernel",
    "inside_pair_bwd_kernel",
    "span_marginal_kernel",
    "words_bwd_kernel",
}


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp32", "fp64"])
@pytest.mark.parametrize("capability", SHARED_MEMORY)
def test_kernels_compile(capability: int, precision: str, tmp_path: Path) -> None:
    paths = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = subprocess.run(
        [sys.executable, str(SCRIPT), str(capability), precision],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths, "TRITON_CACHE_DIR": str(tmp_path)},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    shared = dict(line.split() for line in found.stdout.splitlines())
    kernels = INSIDE | {"bf16": VITERBI | EMISSIONS, "tf32": set()}.get(precision, VITERBI)
    assert shared.keys() >= kernels
    assert all(int(shared[name]) <= SHARED_MEMORY[capability] for name in kernels)
