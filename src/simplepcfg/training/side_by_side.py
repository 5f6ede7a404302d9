"""Several tasks at a time, each in a process of its own; a signal stops all of them, and each saves its work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

from simplepcfg.runs.processes import process_context
from simplepcfg.training.signals import Interrupted, StopSignals
from simplepcfg.training.start import TrainingResult

SECONDS_A_LOOK = 0.2

T = TypeVar("T")
Task = Callable[[Callable[[str], None], T], "Ended"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run: its result, or an error in a line and the exit code that fits it."""

    result: TrainingResult | None = None
    error: str | None = None
    exit_code: int = 0
    traceback: str | None = None  # of a defect


def run_side_by_side(
    function: Task[T], tasks: Mapping[str, T], jobs: int, note: Callable[[str], None], stopped: str
) -> dict[str, Ended]:
    """Call `function(tell, task)` for each named task, `jobs` at a time, each in a new process.

    What a task tells is noted under its name. Returns how each task ended, in the order of `tasks`. A process that dies
    is an error of its task alone. SIGINT and SIGTERM are passed on to every process once, no further one is started,
    and Interrupted is raised at the end, with the message `stopped`; a second signal is passed on, too, and stops them
    at once.
    """
    context = process_context("simplepcfg.training.start")
    waiting = list(tasks)
    running: dict[Connection, BaseProcess] = {}
    ended: dict[str, Ended] = {}
    passed_on: int | None = None
    with StopSignals() as stop:
        stop.defer()
        try:
            while running or (waiting and stop.requested is None):
                while waiting and len(running) < jobs and stop.requested is None:
                    name = waiting.pop(0)
                    ours, theirs = context.Pipe(duplex=False)
                    running[ours] = context.Process(target=_work, args=(function, tasks[name], theirs), name=name)
                    running[ours].start()
                    theirs.close()
                for connection in wait(list(running), SECONDS_A_LOOK):
                    assert isinstance(connection, Connection)
                    process = running[connection]
                    said = _receive(connection, process)
                    if isinstance(said, str):
                        note(f"{process.name}: {said}")
                        continue
                    process.join()
                    del running[connection]
                    ended[process.name] = said
                    if said.error is not None and passed_on is None:
                        note(f"{process.name} failed: {said.traceback or said.error}")
                if stop.requested is not None and passed_on is None:
                    passed_on = stop.requested
                    _signal_all(running.values(), passed_on)
        except Interrupted:  # the second signal
            _signal_all(running.values(), signal.SIGTERM)
            for process in running.values():
                process.join()
            raise
    if passed_on is not None:
        raise Interrupted(stopped, passed_on)
    return {name: ended[name] for name in tasks}


def _work(function: Task[T], task: T, connection: Connection) -> None:
    """Run the job of a process in a session of its own; the end of the process that started it is a signal to stop."""
    if hasattr(os, "setsid"):
        os.setsid()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()
    connection.send(function(connection.send, task))


def _stop_with(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _signal_all(processes: Iterable[BaseProcess], number: int) -> None:
    for process in processes:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)


def _receive(connection: Connection, process: BaseProcess) -> str | Ended:
    """Return what a process says next, or its end if it was killed from outside, or by a defect, and says nothing."""
    try:
        said: str | Ended = connection.recv()
    except (EOFError, ConnectionError):
        process.join()
        code = process.exitcode
        if code is not None and code < 0:
            return Ended(error=f"its process was ended by {signal.Signals(-code).name}", exit_code=4)
        return Ended(error=f"its process ended with exit code {code}", exit_code=1)
    return said
