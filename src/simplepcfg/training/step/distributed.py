"""Process groups for data-parallel training: one process alone, or those that torchrun started.

A failure in one process is shared with the others before any of them ends, so that none waits for a dead process.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.failures import as_resource_error

# torchrun ends all processes as soon as one has ended, so the others give the leader this long to print the error.
LEADER_WAIT_SECONDS = 1.0
MESSAGE_BYTES = 4096

Result = TypeVar("Result")


class PeerFailed(SimplePCFGError):
    """Error of a process whose peer failed or died; the message gives the peer's reason."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Group:
    """Process group of a single process; the base class of `DistributedGroup`."""

    rank = 0
    size = 1
    held_error: Exception | None = None  # a failure that the other processes have not been told of yet

    @property
    def is_leader(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    @property
    def local_size(self) -> int:
        """Number of processes of the group on this machine."""
        return 1

    def device(self, name: str) -> torch.device:
        """Return the device of this process, given the device name that all processes were given.

        Raises InputError if there is no such device.
        """
        return resolve_device(name)

    def shard(self, items: Sequence[Result]) -> list[Result]:
        """Return this process's share of the items of a batch or of a text."""
        return list(items[self.rank :: self.size])

    def reduce_on(self, device: torch.device) -> None:
        """Choose the device on which `all_reduce` sums tensors."""

    def all_reduce(self, *tensors: Tensor | None) -> None:
        """Replace each tensor, in place, by its sum over all processes; skip those that are None."""

    def all_reduce_on_host(self, tensor: Tensor) -> None:
        """Replace a CPU tensor, in place, by its sum over all processes, whatever device they train on."""

    def maximum(self, number: int) -> int:
        """Return the largest of the numbers that the processes give."""
        return number

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors of every process with those of the leader."""

    def hold_error(self, error: Exception) -> None:
        """Keep an error until all processes can be told; a single process raises it at once."""
        raise error

    def raise_held_errors(self, error: Exception | None = None) -> None:
        """Wait for all processes and raise in every one of them if any holds an error or gives one here."""
        if error is not None:
            raise error

    def failing_together(self) -> AbstractContextManager[None]:
        """Return a context in which an error of one process is raised in all of them at the end.

        The processes must not wait for each other inside.
        """
        return nullcontext()

    def holding_errors(self) -> AbstractContextManager[None]:
        """Return a context that keeps an error, as `hold_error` does, instead of raising it."""
        return nullcontext()

    def require_same(self, what: str, value: str) -> None:
        """Raise InputError if the processes give different values; `what` names the value in the message."""


class DistributedGroup(Group):
    """Process group of torch.distributed: gloo for messages between hosts, NCCL for sums between GPUs."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.held_error: Exception | None = None
        self._control: dist.ProcessGroup | None = dist.new_group(backend="gloo")
        self._sums = self._control

    @property
    def local_size(self) -> int:
        """Number of processes of the group on this machine, as torchrun says."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", self.size))

    def device(self, name: str) -> torch.device:
        """Return the device of this process: `auto` and `cuda` mean one GPU for each process."""
        device = resolve_device(name)
        if device.type != "cuda":
            return device
        if device.index is not None:
            raise InputError(f'device "{name}": {self.size} processes need a GPU each; use device cuda')
        gpu, count = int(os.environ.get("LOCAL_RANK", self.rank)), torch.cuda.device_count()
        if gpu >= count:
            raise InputError(f"{self.local_size} processes on a machine with {count} GPUs; start one for each GPU")
        device = torch.device("cuda", gpu)
        torch.cuda.set_device(device)
        return device

    def reduce_on(self, device: torch.device) -> None:
        """Sum by NCCL where the processes train on GPUs."""
        if device.type == "cuda":
            self._sums = dist.new_group(backend="nccl")

    def all_reduce(self, *tensors: Tensor | None) -> None:
        """Replace each tensor by its sum over all processes; on GPUs this launches and does not wait."""
        for tensor in tensors:
            if tensor is not None:
                self._collective(dist.all_reduce, tensor, group=self._sums)

    def all_reduce_on_host(self, tensor: Tensor) -> None:
        """See `Group.all_reduce_on_host`."""
        self._collective(dist.all_reduce, tensor, group=self._control)

    def maximum(self, number: int) -> int:
        """See `Group.maximum`."""
        common = torch.tensor(number)
        self._collective(dist.all_reduce, common, op=dist.ReduceOp.MAX, group=self._control)
        return int(common)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """See `Group.broadcast`."""
        for tensor in tensors:
            self._collective(dist.broadcast, tensor, src=0, group=self._sums)

    def hold_error(self, error: Exception) -> None:
        """Keep the first error; the process then takes part in collectives without computing until all know."""
        self.held_error = self.held_error if self.held_error is not None else as_resource_error(error)

    def raise_held_errors(self, error: Exception | None = None) -> None:
        """Exchange errors; raise this process's own, or PeerFailed with that of the first process that has one."""
        mine = self.held_error if self.held_error is not None else error
        messages = [json.loads(text) for text in self._gather(_as_json(mine))]
        if mine is not None:
            raise mine
        for rank, other in enumerate(messages):
            if other is not None:
                message = other["message"] if other["expected"] else f"process {rank} failed: {other['message']}"
                raise PeerFailed(message, other["exit_code"])

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """See `Group.failing_together`."""
        try:
            yield
        except Exception as error:
            self.raise_held_errors(as_resource_error(error))
        else:
            self.raise_held_errors()

    @contextmanager
    def holding_errors(self) -> Iterator[None]:
        """See `Group.holding_errors`."""
        try:
            yield
        except Exception as error:
            self.hold_error(error)

    def require_same(self, what: str, value: str) -> None:
        """See `Group.require_same`."""
        if len(set(self._gather(value))) > 1:
            raise InputError(f"{what} is not the same in all {self.size} processes; give a file that all can read")

    def close(self) -> None:
        """End the communication threads; no collective may be called afterwards.

        The threads end only once nothing refers to their group. An error that is being raised refers to this object,
        and a thread that still runs when the interpreter ends aborts the process.
        """
        self._control = self._sums = None
        dist.destroy_process_group()

    def _gather(self, text: str) -> list[str]:
        """Return the texts of all processes, ordered by rank."""
        content = text.encode()[:MESSAGE_BYTES].ljust(MESSAGE_BYTES)
        messages = [torch.empty(MESSAGE_BYTES, dtype=torch.uint8) for _ in range(self.size)]
        mine = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self._collective(dist.all_gather, messages, mine, group=self._control)
        return [bytes(tensor.tolist()).decode(errors="ignore").rstrip() for tensor in messages]

    def _collective(self, operation: Callable[..., object], *arguments: object, **options: object) -> None:
        try:
            operation(*arguments, **options)
        except RuntimeError as error:  # The connection broke, or waiting for the peers timed out.
            if self.held_error is not None:
                raise self.held_error from error
            raise PeerFailed(f"another of the {self.size} processes is gone; the last checkpoint stands", 1) from error


def _as_json(error: Exception | None) -> str:
    """Return an error as JSON, short enough to be sent."""
    if error is None:
        return "null"
    expected = isinstance(error, SimplePCFGError)
    message = str(error) if expected else f"{type(error).__name__}: {error}"
    record = {"expected": expected, "exit_code": getattr(error, "exit_code", 1), "message": message[:500]}
    return json.dumps(record)


@contextmanager
def join_group() -> Iterator[Group]:
    """Yield the process group of this process: torchrun's if it started the process, else a single-process group."""
    if dist.is_available() and dist.is_initialized():  # The caller has set up torch.distributed.
        yield DistributedGroup() if dist.get_world_size() > 1 else Group()
        return
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield Group()
        return
    dist.init_process_group("gloo")
    group = DistributedGroup()
    try:
        yield group
        group.raise_held_errors()  # Wait, so that no process leaves while another still needs it.
    except BaseException:
        if not group.is_leader:
            wait_for_leader()
        raise
    finally:
        group.close()


def wait_for_leader() -> None:
    """Give the leader time to print the error before this process ends; ignore torchrun's SIGTERM meanwhile."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LEADER_WAIT_SECONDS)
