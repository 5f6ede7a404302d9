"""Functions of tensors that are replayed as CUDA graphs if the shapes of their arguments recur."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from simplepcfg.ops.capture import Launch
from simplepcfg.ops.graph_cache import Key
from simplepcfg.ops.graphs import DeviceGraphs, graphs_of

Results = tuple[Tensor, ...]
# Returns the results, and whatever holds other memory that its kernels read, which then lives as long as the graph.
Function = Callable[..., tuple[Results, object]]


@dataclass(frozen=True, slots=True)
class RecurringTensors:
    """Large arguments that are often the same tensors in many calls, such as the rules of one grammar.

    A graph reads them where they are if the shape recurs with them at the same addresses, and otherwise from copies,
    which are stacked along the last dimension but one.
    """

    tensors: tuple[Tensor, ...]


Argument = Tensor | RecurringTensors | None


def usable_graphs(device: torch.device) -> DeviceGraphs | None:
    """Return the graphs of a GPU if a function can be replayed now; None on other devices.

    Within a capture of the caller, while a compiler traces, or if graphs are switched off, it cannot.
    """
    if torch.compiler.is_compiling():
        return None
    graphs = graphs_of(device)
    return graphs if graphs is not None and graphs.is_usable else None


def replayed(
    graphs: DeviceGraphs, question: Key, function: Function, arguments: Sequence[Argument], room: int
) -> Results:
    """Compute ``function`` of the arguments, by replaying a CUDA graph of it if their shapes recur.

    ``graphs`` come from ``usable_graphs``. ``question`` is whatever determines the computation besides the tensors: its
    name and its settings. ``function``, see ``Function``, must not wait for the device, read a value on the host or
    modify its arguments: a tensor, None, or for ``RecurringTensors`` a tuple of tensors, each on the device or in
    pinned memory of the host. ``room`` is the estimated number of bytes that it allocates.

    Returns new tensors without gradients, equal bit for bit whether the function was replayed or not.
    """
    shapes = tuple(map(_layout, arguments))
    shape: Key = (question, shapes)
    places = tuple(t.data_ptr() for each in arguments if isinstance(each, RecurringTensors) for t in each.tensors)
    in_place: Key = (*shape, places)
    with graphs.lock, graphs.on_device(), torch.no_grad():
        # A graph that copies serves every call, so that no other one is captured beside it.
        keys = [shape] if not places or (graphs.has(shape) and not graphs.has(in_place)) else [in_place, shape]
        for key in keys:
            copies = key is shape
            make = partial(ReplayedFunction, function, arguments, copies, room, graphs.device)
            entry = graphs.find(key, room + _bytes(arguments, copies), make)
            if entry is not None:
                with graphs.in_order:
                    results: Results = entry.replay(arguments)
                graphs.has_replayed = True
                return results
    with graphs.on_device(), torch.no_grad():
        return function(*(_plain(each, graphs.device) for each in arguments))[0]


class ReplayedFunction:
    """A function whose arguments are copied into buffers that its graph reads.

    Results are part of the memory that all graphs share, and are copied at once. Recurring tensors that are read
    in place belong to the caller: they are referred to during a call only.
    """

    is_free = True

    def __init__(
        self, function: Function, arguments: Sequence[Argument], copies_recurring: bool, room: int, device: torch.device
    ) -> None:
        self.bytes = room + _bytes(arguments, copies_recurring)
        self._function, self._copies_recurring = function, copies_recurring
        self._buffers = [_buffer(each, copies_recurring, device) for each in arguments]
        self._given: list[Argument] = []
        self._results: Results = ()
        self._kept: object = None
        self._graph: Launch | None = None
        self._load(arguments)

    def run(self) -> None:
        """Compute the function of what the buffers hold."""
        self._compute()

    def capture(self, capture: Callable[[Launch], Launch]) -> None:
        """Capture the function, which must have run before."""

        def run() -> None:
            self._results, self._kept = self._compute()

        self._graph = capture(run)
        self._given = []

    def replay(self, arguments: Sequence[Argument]) -> Results:
        """Compute the function of these arguments."""
        assert self._graph is not None
        self._load(arguments)
        self._graph()
        self._given = []
        return tuple(result.clone() for result in self._results)

    def _load(self, arguments: Sequence[Argument]) -> None:
        self._given = list(arguments)
        for buffer, given in zip(self._buffers, arguments, strict=True):
            if isinstance(given, Tensor):
                assert isinstance(buffer, Tensor)
                buffer.copy_(given, non_blocking=True)
            elif given is not None and self._copies_recurring:
                assert isinstance(buffer, tuple)
                for part, tensor in zip(buffer, given.tensors, strict=True):
                    part.copy_(tensor)

    def _compute(self) -> tuple[Results, object]:
        reads = [
            given.tensors if isinstance(given, RecurringTensors) and not self._copies_recurring else buffer
            for buffer, given in zip(self._buffers, self._given, strict=True)
        ]
        return self._function(*reads)


def _layout(argument: Argument) -> object:
    if argument is None:
        return None
    tensors = argument.tensors if isinstance(argument, RecurringTensors) else (argument,)
    return tuple((t.shape, t.stride() if isinstance(argument, RecurringTensors) else None, t.dtype) for t in tensors)


def _plain(argument: Argument, device: torch.device) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(argument, RecurringTensors):
        return tuple(tensor.detach() for tensor in argument.tensors)
    return None if argument is None else argument.detach().to(device, non_blocking=True).contiguous()


def _buffer(argument: Argument, copies_recurring: bool, device: torch.device) -> Tensor | tuple[Tensor, ...] | None:
    if isinstance(argument, Tensor):
        return torch.empty(argument.shape, dtype=argument.dtype, device=device)
    if argument is None or not copies_recurring:
        return None
    first, count = argument.tensors[0], len(argument.tensors)
    if all(t.shape == first.shape and t.dtype == first.dtype and _has_whole_rows(t) for t in argument.tensors):
        *lead, rows, columns = first.shape
        return torch.empty(*lead, count * rows, columns, dtype=first.dtype, device=device).chunk(count, -2)
    # Matrix products may depend on the strides of their operands in the last bit.
    return tuple(
        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
        if 0 not in t.stride()
        else torch.empty(t.shape, dtype=t.dtype, device=device)
        for t in argument.tensors
    )


def _has_whole_rows(tensor: Tensor) -> bool:
    return tensor.dim() >= 2 and tensor.stride()[-2:] == (tensor.shape[-1], 1)


def _bytes(arguments: Sequence[Argument], copies_recurring: bool) -> int:
    """Return the size of the buffers."""
    total = 0
    for each in arguments:
        if isinstance(each, Tensor):
            total += each.nbytes
        elif each is not None and copies_recurring:
            total += sum(tensor.nbytes for tensor in each.tensors)
    return total
