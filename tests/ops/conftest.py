"""Operations never read memory that nothing has written: on a CPU new tensors of these tests are filled with NaN."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _nan_in_new_memory() -> Iterator[None]:
    if torch.cuda.is_available():  # where deterministic algorithms would be others than those that are tested
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)  # what torch fills new memory with depends on it
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
