"""Several tasks at a time, each in a process of its own; a signal stops all of them, and each saves its work."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, TypeVar

from simplepcfg.runs.processes import process_context
from simplepcfg.training.signals import Interrupted, StopSignals
from simplepcfg.training.start import TrainingResult

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    Messages = Queue[tuple[str, "str | Ended"]]

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
    messages = context.Queue()
    waiting = list(tasks)
    running: dict[str, BaseProcess] = {}
    ended: dict[str, Ended] = {}
    passed_on: int | None = None

    def listen(block: bool) -> None:
        while True:
            try:
                name, said = messages.get(timeout=SECONDS_A_LOOK) if block else messages.get_nowait()
            except queue.Empty:
                return
            block = False
            if isinstance(said, Ended):
                ended[name] = said
            else:
                note(f"{name}: {said}")

    with StopSignals() as stop:
        stop.defer()
        try:
            while running or (waiting and stop.requested is None):
                while waiting and len(running) < jobs and stop.requested is None:
                    name = waiting.pop(0)
                    started = context.Process(target=_work, args=(function, name, tasks[name], messages), name=name)
                    started.start()
                    running[name] = started
                listen(block=True)
                if stop.requested is not None and passed_on is None:
                    passed_on = stop.requested
                    _signal_all(running.values(), passed_on)
                for name, process in list(running.items()):
                    if not process.is_alive():
                        process.join()
                        listen(block=True)  # its last words may still be on their way
                        ended.setdefault(name, _silent_end(process.exitcode))
                        if ended[name].error is not None and passed_on is None:
                            note(f"{name} failed: {ended[name].traceback or ended[name].error}")
                        del running[name]
        except Interrupted:  # the second signal
            _signal_all(running.values(), signal.SIGTERM)
            for process in running.values():
                process.join()
            raise
    if passed_on is not None:
        raise Interrupted(stopped, passed_on)
    return {name: ended[name] for name in tasks}


def _work(function: Task[T], name: str, task: T, messages: Messages) -> None:
    """Run the job of a process in a session of its own; the end of the process that started it is a signal to stop."""
    if hasattr(os, "setsid"):
        os.setsid()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()
    messages.put((name, function(lambda text: messages.put((name, text)), task)))


def _stop_with(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _signal_all(processes: Iterable[BaseProcess], number: int) -> None:
    for process in processes:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)


def _silent_end(exit_code: int | None) -> Ended:
    """Describe the end of a process that said nothing: killed from outside, or by a defect."""
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        return Ended(error=f"its process was ended by {name}", exit_code=4)
    return Ended(error=f"its process ended with exit code {exit_code}", exit_code=1)
