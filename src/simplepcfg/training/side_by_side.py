"""Several tasks at a time, each in a process of its own; a signal stops all of them, and each saves its work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

import torch

from simplepcfg.runs.device import usable_cores
from simplepcfg.runs.processes import process_context, when_parent_ends
from simplepcfg.training.signals import Interrupted, StopSignals
from simplepcfg.training.start import TrainingResult

SECONDS_A_LOOK = 0.2

T = TypeVar("T")
Task = Callable[[Callable[[str], None], T], "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its result, or an error in one line and the exit code that fits it."""

    result: TrainingResult | None = None
    error: str | None = None
    exit_code: int = 0
    traceback: str | None = None  # of a defect


def run_side_by_side(
    function: Task[T], tasks: Mapping[str, T], jobs: int, note: Callable[[str], None], stopped: str
) -> dict[str, Outcome]:
    """Call `function(tell, task)` for each named task, `jobs` at a time, each in a new process with its share of cores.

    `tell` hands a line to `note`, under the name of the task. Returns the outcomes in the order of `tasks`. A process
    that dies is an error of its task alone. After SIGINT or SIGTERM every process is asked to stop, no further one is
    started, and Interrupted is raised at the end, with the message `stopped`; a second signal stops them at once.
    """
    context = process_context("simplepcfg.training.start")
    waiting = list(tasks)
    threads = max(usable_cores() // max(min(jobs, len(tasks)), 1), 1)
    running: dict[Connection, BaseProcess] = {}
    outcomes: dict[str, Outcome] = {}
    passed_on: int | None = None
    with StopSignals() as stop:
        stop.defer()
        try:
            while running or (waiting and stop.requested is None):
                while waiting and len(running) < jobs and stop.requested is None:
                    name = waiting.pop(0)
                    receiver, sender = context.Pipe(duplex=False)
                    given = (function, tasks[name], sender, threads)
                    running[receiver] = context.Process(target=_work, args=given, name=name)
                    running[receiver].start()
                    sender.close()
                for connection in wait(list(running), SECONDS_A_LOOK):
                    assert isinstance(connection, Connection)
                    process = running[connection]
                    message = _receive(connection, process)
                    if isinstance(message, str):
                        note(f"{process.name}: {message}")
                        continue
                    process.join()
                    del running[connection]
                    outcomes[process.name] = message
                    if message.error is not None and passed_on is None:
                        note(f"{process.name} failed: {message.traceback or message.error}")
                if stop.requested is not None and passed_on is None:
                    passed_on = stop.requested
                    _stop_all(running.values())
        except Interrupted:  # the second signal
            _stop_all(running.values())
            for process in running.values():
                process.join()
            raise
    if passed_on is not None:
        raise Interrupted(stopped, passed_on)
    return {name: outcomes[name] for name in tasks}


def _work(function: Task[T], task: T, connection: Connection, threads: int) -> None:
    """Do a task in a process with a session of its own, which stops when the process that started it ends."""
    torch.set_num_threads(threads)
    if hasattr(os, "setsid"):
        os.setsid()
    when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    connection.send(function(connection.send, task))


def _stop_all(processes: Iterable[BaseProcess]) -> None:
    """Ask all to stop. A process that has not yet begun its task ends by SIGTERM; it would not hear of SIGINT."""
    for process in processes:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGTERM)


def _receive(connection: Connection, process: BaseProcess) -> str | Outcome:
    """Return a process's next message, or its outcome if it was killed or failed without one."""
    try:
        message: str | Outcome = connection.recv()
    except (EOFError, ConnectionError):
        process.join()
        code = process.exitcode
        if code is not None and code < 0:
            return Outcome(error=f"its process was ended by {signal.Signals(-code).name}", exit_code=4)
        return Outcome(error=f"its process ended with exit code {code}", exit_code=1)
    return message
