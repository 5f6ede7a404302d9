"""How processes that work beside the main one are started, and what one that a user has forked has to change."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from simplepcfg.errors import InputError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext


def process_context(module: str) -> ForkServerContext | SpawnContext:
    """Return the context of processes that need `module`: forked by a server that has imported it; spawned on Windows.

    Importing PyTorch takes a process two seconds. Forking the main process itself is not safe once it has threads
    or has used a GPU.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([module])
    _start_server()
    return context


def _start_server() -> None:
    """Start the server that forks, deaf to SIGINT: Ctrl-C, which all processes hear, would end it while it imports.

    The processes that it forks are deaf to it, too, and are asked to stop by SIGTERM.
    """
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # started later, it would let SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # here it is only put off
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def when_parent_ends(action: Callable[[], object]) -> None:
    """Call `action`, from a thread, when the process that started this one has ended."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            action()

    threading.Thread(target=wait, daemon=True).start()


_computes_in: int | None = None  # the process that computed last; another one than this if it has forked this one


def leave_threads_behind(device: torch.device | None = None) -> None:
    """Compute by one thread and without oneDNN in a process that was forked by one that has called this function.

    The threads of torch, and those that oneDNN has on Arm, do not exist in the forked process, which would wait for
    them for ever. Raises InputError there for a grammar on a GPU.
    """
    global _computes_in
    if _computes_in not in (None, os.getpid()):
        if device is not None and device.type == "cuda":
            raise InputError(
                "a forked process cannot use the GPU of the one that forked it; start processes after "
                'multiprocessing.set_start_method("spawn"), or load the grammar with device="cpu"'
            )
        torch.set_num_threads(1)
        torch.backends.mkldnn.set_flags(False)
    _computes_in = os.getpid()
