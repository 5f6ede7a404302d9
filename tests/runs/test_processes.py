"""Processes that a user has forked: the threads of the one that forked them do not exist there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from simplepcfg.errors import InputError
from simplepcfg.runs import processes

# The grammar has been used before the processes start, by all threads. Only a large one has products that the threads
# of a forked process would be waited for.
POOL = """
import multiprocessing
import simplepcfg

run = simplepcfg.load("english")
sentences = ["the old dog sleeps in the big house"] * 40
run.parse_spans(sentences, decode="exact-mbr")

def tree(number):
    return run.parse_spans(sentences[:5])[number].to_brackets()

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(len(set(pool.map(tree, range(4)))))
"""


@pytest.mark.timeout(100)
def test_a_pool_of_forked_processes_parses(tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


SERVER = """
import os, signal, sys, time
from multiprocessing import forkserver
from simplepcfg.runs.processes import process_context

if __name__ == "__main__":
    context = process_context("slow")  # takes a second to import
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGINT)
    process = context.Process(target=print, args=("printed",))
    process.start()
    process.join()
"""


@pytest.mark.timeout(100)
def test_ctrl_c_does_not_end_the_server_while_it_imports(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(1)\n")
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "printed\n", "")


def test_a_forked_process_cannot_use_the_gpu_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_computes_in", os.getpid() + 1)
    with pytest.raises(InputError, match=r"set_start_method\(\"spawn\"\)"):
        processes.leave_threads_behind(torch.device("cuda"))


def test_only_a_forked_process_gives_up_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[object] = []
    monkeypatch.setattr(torch, "set_num_threads", changed.append)
    monkeypatch.setattr(torch.backends.mkldnn, "set_flags", changed.append)
    monkeypatch.setattr(processes, "_computes_in", None)
    processes.leave_threads_behind(torch.device("cuda"))
    processes.leave_threads_behind()
    assert changed == []
    monkeypatch.setattr(processes, "_computes_in", os.getpid() + 1)
    processes.leave_threads_behind(torch.device("cpu"))
    processes.leave_threads_behind(torch.device("cpu"))
    assert changed == [1, False]
