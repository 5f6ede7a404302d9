"""How processes that work beside the main one are started."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

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
    return context
