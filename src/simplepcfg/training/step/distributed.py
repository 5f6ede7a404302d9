"""The processes that train together: one alone, or those that torchrun started, who agree before anyone ends."""

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
from simplepcfg.training.machine.device import resolve_device
from simplepcfg.training.machine.failures import explained

# torchrun ends all processes as soon as one has ended: the others wait so long for the first to say why.
LINGER_SECONDS = 1.0
MESSAGE_BYTES = 4096

Result = TypeVar("Result")


class PeerFailed(SimplePCFGError):
    """Another process failed, for the reason that the message gives, or is gone."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Group:
    """One process alone."""

    rank = 0
    size = 1
    held: Exception | None = None  # a failure that the others have not been told yet

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    @property
    def here(self) -> int:
        """How many of the processes share this machine."""
        return 1

    def device(self, name: str) -> torch.device:
        """The device of this process, by the name that all were given."""
        return resolve_device(name)

    def part(self, items: Sequence[Result]) -> list[Result]:
        """This process's share of a batch or of a text."""
        return list(items[self.rank :: self.size])

    def use(self, device: torch.device) -> None:
        """From now on sums are made where the processes compute."""

    def add_up(self, *tensors: Tensor | None) -> None:
        """Replace each tensor by its sum over all processes."""

    def add_up_on_host(self, tensor: Tensor) -> None:
        """The same for a tensor on the CPU, wherever the processes compute."""

    def largest(self, number: int) -> int:
        """The largest of the numbers that the processes give."""
        return number

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Give everyone the first process's values."""

    def hold(self, error: Exception) -> None:
        """A failure in the middle: raised here and now, unless others would wait for this process in vain."""
        raise error

    def agree(self, error: Exception | None = None) -> None:
        """Wait for all; raise if any of them has an error, and then in all of them."""
        if error is not None:
            raise error

    def together(self) -> AbstractContextManager[None]:
        """What is done inside succeeds everywhere or fails everywhere. No process may wait for another inside."""
        return nullcontext()

    def guarded(self) -> AbstractContextManager[None]:
        """An error inside is held back until the others can be told."""
        return nullcontext()

    def require_same(self, what: str, value: str) -> None:
        """InputError if the processes do not have the same."""


class Processes(Group):
    """Several processes of torch.distributed: gloo for words between the hosts, NCCL for sums between GPUs."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.held: Exception | None = None
        self._control: dist.ProcessGroup | None = dist.new_group(backend="gloo")
        self._sums = self._control

    @property
    def here(self) -> int:
        """As torchrun says."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", self.size))

    def device(self, name: str) -> torch.device:
        """`auto` and `cuda` mean a GPU for each process."""
        device = resolve_device(name)
        if device.type != "cuda":
            return device
        if device.index is not None:
            raise InputError(f'device "{name}": {self.size} processes need a GPU each; use device cuda')
        gpu, count = int(os.environ.get("LOCAL_RANK", self.rank)), torch.cuda.device_count()
        if gpu >= count:
            raise InputError(f"{self.here} processes on a machine with {count} GPUs; start one for each GPU")
        device = torch.device("cuda", gpu)
        torch.cuda.set_device(device)
        return device

    def use(self, device: torch.device) -> None:
        """See Group."""
        if device.type == "cuda":
            self._sums = dist.new_group(backend="nccl")

    def add_up(self, *tensors: Tensor | None) -> None:
        """See Group; on GPUs this only launches."""
        for tensor in tensors:
            if tensor is not None:
                self._collective(dist.all_reduce, tensor, group=self._sums)

    def add_up_on_host(self, tensor: Tensor) -> None:
        """See Group."""
        self._collective(dist.all_reduce, tensor, group=self._control)

    def largest(self, number: int) -> int:
        """See Group."""
        found = torch.tensor(number)
        self._collective(dist.all_reduce, found, op=dist.ReduceOp.MAX, group=self._control)
        return int(found)

    def share(self, tensors: Sequence[Tensor]) -> None:
        """See Group."""
        for tensor in tensors:
            self._collective(dist.broadcast, tensor, src=0, group=self._sums)

    def hold(self, error: Exception) -> None:
        """Keep the first failure; this process goes on taking part, without computing, until all know."""
        self.held = self.held if self.held is not None else explained(error)

    def agree(self, error: Exception | None = None) -> None:
        """See Group; every process says its error, and who has none takes the first one's."""
        mine = self.held if self.held is not None else error
        said = [json.loads(text) for text in self._gather(_as_text(mine))]
        if mine is not None:
            raise mine
        for rank, other in enumerate(said):
            if other is not None:
                message = other["message"] if other["expected"] else f"process {rank} failed: {other['message']}"
                raise PeerFailed(message, other["exit_code"])

    @contextmanager
    def together(self) -> Iterator[None]:
        """See Group."""
        try:
            yield
        except Exception as error:
            self.agree(explained(error))
        else:
            self.agree()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """See Group."""
        try:
            yield
        except Exception as error:
            self.hold(error)

    def require_same(self, what: str, value: str) -> None:
        """See Group."""
        if len(set(self._gather(value))) > 1:
            raise InputError(f"{what} is not the same in all {self.size} processes; give a file that all can read")

    def leave(self) -> None:
        """End the threads that carry what the processes say; nothing can be said afterwards.

        They end only once nothing refers to their group. An error on its way out refers to this object, and a thread
        that still runs when the interpreter ends aborts the process.
        """
        self._control = self._sums = None
        dist.destroy_process_group()

    def _gather(self, text: str) -> list[str]:
        """What each process says, in order."""
        content = text.encode()[:MESSAGE_BYTES].ljust(MESSAGE_BYTES)
        found = [torch.empty(MESSAGE_BYTES, dtype=torch.uint8) for _ in range(self.size)]
        mine = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self._collective(dist.all_gather, found, mine, group=self._control)
        return [bytes(tensor.tolist()).decode(errors="ignore").rstrip() for tensor in found]

    def _collective(self, operation: Callable[..., object], *given: object, **choices: object) -> None:
        try:
            operation(*given, **choices)
        except RuntimeError as error:  # a connection that broke, or a wait that took too long
            if self.held is not None:
                raise self.held from error
            raise PeerFailed(f"another of the {self.size} processes is gone; the last checkpoint stands", 1) from error


def _as_text(error: Exception | None) -> str:
    """An error in JSON, short enough to be sent."""
    if error is None:
        return "null"
    expected = isinstance(error, SimplePCFGError)
    message = str(error) if expected else f"{type(error).__name__}: {error}"
    record = {"expected": expected, "exit_code": getattr(error, "exit_code", 1), "message": message[:500]}
    return json.dumps(record)


@contextmanager
def joined() -> Iterator[Group]:
    """The group that this process belongs to: torchrun's, if it was started by it, else itself alone."""
    if dist.is_available() and dist.is_initialized():  # by whoever calls
        yield Processes() if dist.get_world_size() > 1 else Group()
        return
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield Group()
        return
    dist.init_process_group("gloo")
    group = Processes()
    try:
        yield group
        group.agree()  # nobody leaves while another still needs it
    except BaseException:
        if not group.leads:
            let_the_first_speak()
        raise
    finally:
        group.leave()


def let_the_first_speak() -> None:
    """Wait a moment before ending with an error, and do not let torchrun cut the wait short."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LINGER_SECONDS)
