"""Process groups for training: one process alone, or those that torchrun started, on a mesh of data × grammar.

The processes of a row of the mesh share one grammar, of which each has some symbols, and compute the same sentences;
those of a column have the same symbols and compute different sentences. A failure in one process is shared with the
others before any of them ends, so that none waits for a dead process.
"""

import hashlib
import heapq
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from simplepcfg.errors import InputError, SimplePCFGError
from simplepcfg.ops.shards import Shards
from simplepcfg.runs.device import resolve_device
from simplepcfg.runs.failures import as_resource_error

# torchrun ends all processes as soon as one has ended, so the others give the leader this long to print the error.
LEADER_WAIT_SECONDS = 1.0
MESSAGE_BYTES = 4096
FAILURE = "simplepcfg/failure"  # key of torch's store


class PeerFailed(SimplePCFGError):
    """Error of a process whose peer failed or died; the message gives the peer's reason."""


class Group:
    """Process group of a single process; the base class of `DistributedGroup`."""

    rank = 0
    size = 1
    data_rank, data_size = 0, 1  # the part of a batch that this process computes
    shards: Shards | None = None  # the processes that share this one's sentences, if they share a grammar
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

    @property
    def has_first_batch(self) -> bool:
        """Whether this process's weights, with those of its shards, are the ones that are saved."""
        return self.data_rank == 0

    @property
    def is_first_shard(self) -> bool:
        """Whether this process reports the losses of its sentences, which its shards compute as well."""
        return self.shards is None or self.shards.rank == 0

    def share(self, lengths: Tensor, states: int) -> list[int]:
        """Return the positions of this process's sentences in a batch or a text with sentences of these lengths.

        They are shared by what they cost with N states, n³ N + n² N² for n words, or n for a model without states.
        """
        if self.data_size == 1:
            return list(range(len(lengths)))
        sizes = lengths.double()
        costs: list[float] = (sizes**3 + sizes**2 * states if states else sizes).tolist()
        return balanced_shares(costs, self.data_size)[self.data_rank]

    def arrange(self, device: torch.device, mesh: tuple[int, int], minutes: float) -> None:
        """Arrange the processes in a mesh of data × grammar on a kind of device; no collective waits for longer."""

    def all_reduce(self, *tensors: Tensor | None) -> None:
        """Replace each tensor, in place, by its sum over all processes; skip those that are None."""

    def all_reduce_over_data(self, tensor: Tensor) -> None:
        """Replace a tensor, in place, by its sum over the processes that have the same symbols."""

    def all_reduce_on_host(self, tensor: Tensor) -> None:
        """Replace a CPU tensor, in place, by its sum over all processes, whatever device they train on."""

    def maximum(self, number: int) -> int:
        """Return the largest of the numbers that the processes give."""
        return number

    def broadcast(self, tensors: Sequence[Tensor], sharded: Sequence[Tensor] = ()) -> None:
        """Overwrite tensors with those of the leader, and sharded ones with those of the first of the same symbols."""

    def raise_held_errors(self) -> None:
        """Wait for all processes and raise in every one of them if any holds an error."""

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Return a context in which an error of one process is raised in all of them at the end.

        The processes must not wait for each other inside.
        """
        with self.holding_errors():
            yield
        self.raise_held_errors()

    def holding_errors(self) -> AbstractContextManager[None]:
        """Return a context that keeps an error until all processes can be told; a single process raises it at once."""
        return nullcontext()

    def require_same(self, what: str, value: str, fix: str) -> None:
        """Raise InputError if the processes give different values; the message has what the value is, and the fix."""


class DistributedGroup(Group):
    """Process group of torch.distributed: gloo for messages between hosts, NCCL for sums between GPUs."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.held_error: Exception | None = None
        self.data_rank, self.data_size = self.rank, self.size
        self._minutes = 30.0  # torch's default
        self._control: dist.ProcessGroup | None = dist.new_group(backend="gloo")
        self._sums = self._data = self._control

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

    def arrange(self, device: torch.device, mesh: tuple[int, int], minutes: float) -> None:
        """See `Group.arrange`; sums are by NCCL where the processes train on GPUs."""
        from torch.distributed.device_mesh import init_device_mesh

        self._minutes = minutes
        timeout = timedelta(minutes=minutes)
        backend = "nccl" if device.type == "cuda" else "gloo"
        self._control = dist.new_group(backend="gloo", timeout=timeout)
        self._sums = dist.new_group(backend=backend, timeout=timeout)
        names = ("data", "grammar")
        backends: dict[int | str, Any] = {name: _options(backend, minutes) for name in names}
        arranged = init_device_mesh(device.type, mesh, mesh_dim_names=names, backend_override=backends)
        self._data = arranged.get_group("data")
        self.data_rank, self.data_size = arranged.get_local_rank("data"), mesh[0]
        if mesh[1] > 1:
            self.shards = Shards.of(arranged.get_group("grammar"))

    def all_reduce(self, *tensors: Tensor | None) -> None:
        """Replace each tensor by its sum over all processes; on GPUs this launches and does not wait."""
        for tensor in tensors:
            if tensor is not None:
                self._collective(dist.all_reduce, tensor, group=self._sums)

    def all_reduce_over_data(self, tensor: Tensor) -> None:
        self._collective(dist.all_reduce, tensor, group=self._data)

    def all_reduce_on_host(self, tensor: Tensor) -> None:
        self._collective(dist.all_reduce, tensor, group=self._control)

    def maximum(self, number: int) -> int:
        common = torch.tensor(number)
        self._collective(dist.all_reduce, common, op=dist.ReduceOp.MAX, group=self._control)
        return int(common)

    def broadcast(self, tensors: Sequence[Tensor], sharded: Sequence[Tensor] = ()) -> None:
        for tensor in tensors:
            self._collective(dist.broadcast, tensor, src=0, group=self._sums)
        for tensor in sharded:
            self._collective(dist.broadcast, tensor, group_src=0, group=self._data)

    def raise_held_errors(self) -> None:
        """Exchange errors; raise this process's own, or PeerFailed with that of the first process that has one."""
        messages = [json.loads(text) for text in self._gather(_as_json(self.held_error, self.rank))]
        if self.held_error is not None:
            raise self.held_error
        for other in messages:
            if other is not None:
                raise PeerFailed(other["message"], other["exit_code"])

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._keep(error)
        self.raise_held_errors()

    @contextmanager
    def holding_errors(self) -> Iterator[None]:
        """Keep the first error; the process then takes part in collectives without computing until all know.

        Shards wait for one another within the computation: there the error is raised at once, and ends them all.
        """
        try:
            yield
        except Exception as error:
            if self.shards is None:
                self._keep(error)
                return
            if isinstance(error, RuntimeError) and _is_of_peers(error):
                raise self._of_peers(error) from error
            # Processes that wait for this one in vain read the reason there.
            dist.distributed_c10d._get_default_store().set(FAILURE, _as_json(error, self.rank))
            raise

    def _keep(self, error: Exception) -> None:
        self.held_error = self.held_error if self.held_error is not None else as_resource_error(error)

    def require_same(self, what: str, value: str, fix: str) -> None:
        if len(set(self._gather(hashlib.sha256(value.encode()).hexdigest()))) > 1:
            raise InputError(f"{what} is not the same in all {self.size} processes; {fix}")

    def close(self) -> None:
        """End the communication threads; no collective may be called afterwards.

        The threads end only once nothing refers to their group. An error that is being raised refers to this object,
        and a thread that still runs when the interpreter ends aborts the process.
        """
        self._control = self._sums = self._data = self.shards = None
        dist.destroy_process_group()

    def _gather(self, text: str) -> list[str]:
        """Return the texts of all processes, ordered by rank."""
        content = text.encode()[:MESSAGE_BYTES].ljust(MESSAGE_BYTES)
        messages = [torch.empty(MESSAGE_BYTES, dtype=torch.uint8) for _ in range(self.size)]
        own = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self._collective(dist.all_gather, messages, own, group=self._control)
        return [bytes(tensor.tolist()).decode(errors="ignore").rstrip() for tensor in messages]

    def _collective(self, operation: Callable[..., object], *arguments: object, **options: object) -> None:
        try:
            operation(*arguments, **options)
        except RuntimeError as error:  # The connection broke, or waiting for the peers timed out.
            if self.held_error is not None:
                raise self.held_error from error
            raise self._of_peers(error) from error

    def _of_peers(self, error: RuntimeError) -> PeerFailed:
        """Return the error of a process that waited for others in vain, with the reason if one of them left it."""
        with suppress(RuntimeError):  # The store ends with the process that holds it.
            store = dist.distributed_c10d._get_default_store()
            if self.shards is not None and store.check([FAILURE]):
                reason = json.loads(store.get(FAILURE))
                return PeerFailed(reason["message"], reason["exit_code"])
        if "timed out" in str(error).lower() or "timeout" in str(error).lower():
            return PeerFailed(
                f"another of the {self.size} processes did not answer for {self._minutes:g} minutes "
                "(training.timeout_minutes); the last checkpoint stands"
            )
        return PeerFailed(f"another of the {self.size} processes is gone; the last checkpoint stands")


def _is_of_peers(error: RuntimeError) -> bool:
    """Return whether an error comes from waiting for other processes, and not from this one's own computation."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()


def _options(backend: str, minutes: float) -> tuple[str, Any]:
    """Return a backend with its timeout, as `init_device_mesh` takes it."""
    gloo: Any = dist.ProcessGroupGloo
    options = dist.ProcessGroupNCCL.Options() if backend == "nccl" else gloo._Options()
    options._timeout = timedelta(minutes=minutes)
    return backend, options


def mesh_shape(mesh: Sequence[int], processes: int) -> tuple[int, int]:
    """Return how many processes share the data and how many a grammar; raise InputError if others are running."""
    data, grammar = mesh or (processes, 1)
    if data * grammar != processes:
        raise InputError(
            f"training.mesh = [{data}, {grammar}] is for {data * grammar} processes, but {processes} "
            f"{'is' if processes == 1 else 'are'} running; start so many with torchrun, or set another mesh"
        )
    return data, grammar


def balanced_shares(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Divide positions into parts of about equal cost: the most expensive first, each to the part with the least.

    >>> balanced_shares([1, 1, 4, 1, 1], 2)
    [[2], [0, 1, 3, 4]]
    """
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [(0.0, part) for part in range(parts)]
    for position in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        load, part = heapq.heappop(loads)
        shares[part].append(position)
        heapq.heappush(loads, (load + costs[position], part))
    return [sorted(share) for share in shares]


def _as_json(error: Exception | None, rank: int) -> str:
    """Return an error of a process as JSON, short enough to be sent: its exit code and what to say."""
    if error is None:
        return "null"
    expected = isinstance(error, SimplePCFGError)
    message = str(error) if expected else f"process {rank} failed: {type(error).__name__}: {error}"
    return json.dumps({"exit_code": getattr(error, "exit_code", 1), "message": message[:500]})


@contextmanager
def join_group() -> Iterator[Group]:
    """Yield the process group of this process: torchrun's if it started the process, else a single-process group."""
    if dist.is_available() and dist.is_initialized():  # The caller has set up torch.distributed.
        yield DistributedGroup() if dist.get_world_size() > 1 else Group()
        return
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield Group()
        return
    # Torchrun may keep its store when it starts processes again, with the addresses of those that are gone.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store, rank, size = next(dist.rendezvous("env://"))
    dist.init_process_group("gloo", store=dist.PrefixStore(f"attempt-{attempt}", store), rank=rank, world_size=size)
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
