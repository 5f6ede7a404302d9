"""Processes that answer the parts of a corpus, each with the grammar in memory, and write a file for each part."""

import gzip
import io
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from simplepcfg.cli.options import SentencesRequest
from simplepcfg.cli.sentence_stream import Part, Prepare
from simplepcfg.errors import ResourceError, SimplePCFGError, TextWarning, is_out_of_memory
from simplepcfg.files import remove_leftovers, write_bytes

COMPRESSION = 6
GO_ON = "the same command goes on with the parts that are not finished"


def devices_of(request: SentencesRequest) -> list[str]:
    """Return the device of each process: all GPUs, or one process for each core that may be used."""
    import torch

    from simplepcfg.runs.device import resolve_device, usable_cores

    if resolve_device(request.device).type == "cpu":
        return ["cpu"] * (request.jobs or usable_cores())
    every = request.device in ("auto", "cuda")
    names = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if every else [request.device]
    return [names[index % len(names)] for index in range(request.jobs or len(names))]


def write_parts(
    parts: Iterator[Part], prepare: Prepare, request: SentencesRequest, devices: list[str]
) -> Iterator[tuple[Part, list[str]]]:
    """Yield each part once its file is written, with the remarks on it; the next part is read in the meantime."""
    from simplepcfg.runs.processes import process_context

    context = process_context("simplepcfg.inference.run")
    processes: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, Part | None] = {}
    idle: list[Connection] = []

    def wait_for_some() -> Iterator[tuple[Part, list[str]]]:
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)
            said = connection.recv()
            if isinstance(said, BaseException):
                raise said
            part = busy.pop(connection)
            idle.append(connection)
            if part is not None:
                yield part, said

    try:
        for device in devices:
            ours, theirs = context.Pipe()
            asked = replace(request, device=device, quiet=False)
            started = context.Process(target=_work, args=(theirs, prepare, asked), daemon=True)
            started.start()
            processes[ours] = started
            theirs.close()
            busy[ours] = None  # until it has loaded the grammar
        for part in parts:
            while not idle:
                yield from wait_for_some()
            connection = idle.pop()
            connection.send(part)
            busy[connection] = replace(part, items=[])  # they are in memory once
        while any(busy.values()):
            yield from wait_for_some()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {GO_ON}") from None
    except (EOFError, ConnectionError):
        raise ResourceError(f"a process has died, perhaps of too little memory; give fewer --jobs: {GO_ON}") from None
    finally:
        for process in processes.values():
            process.terminate()
            process.join()


def _work(connection: Connection, prepare: Prepare, request: SentencesRequest) -> None:
    """Answer the parts that come, one thread a process, until there are none or the main process has died."""
    import torch

    from simplepcfg.runs.processes import when_parent_ends

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process hears of it, too
    when_parent_ends(lambda: os._exit(1))
    warnings.simplefilter("ignore", TextWarning)  # commands make their own remarks on text
    torch.set_num_threads(1)  # whatever the number of processes: it may change last digits
    try:
        with redirect_stderr(io.StringIO()):
            answer = prepare(request)
        connection.send([])
        while True:
            part: Part = connection.recv()
            with redirect_stdout(io.StringIO()) as answers, redirect_stderr(io.StringIO()) as remarks:
                answer(part)
            content = answers.getvalue().encode()
            part.path.parent.mkdir(parents=True, exist_ok=True)
            compressed = part.path.suffix == ".gz"
            write_bytes(part.path, gzip.compress(content, COMPRESSION, mtime=0) if compressed else content)
            remove_leftovers(part.path.parent, part.path.name)
            connection.send(remarks.getvalue().splitlines())
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        if not isinstance(error, SimplePCFGError | OSError) and not is_out_of_memory(error):
            raise
        connection.send(error)
