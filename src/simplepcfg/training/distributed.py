"""The processes that train together; here, as long as there is no other, one alone."""

from collections.abc import Sequence

from torch import Tensor


class Group:
    """One process alone."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def part(self, indices: Sequence[int]) -> list[int]:
        """This process's share of a batch."""
        return list(indices[self.rank :: self.size])

    def add_up(self, *tensors: Tensor | None) -> None:
        """Replace each tensor by its sum over all processes."""
