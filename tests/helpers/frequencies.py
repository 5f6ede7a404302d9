"""Whether drawn outcomes come as often as they should."""

import math


def chi_square(counts: list[int], shares: list[float]) -> float:
    """The statistic over its degrees of freedom in units of its deviation; outcomes that are rare are put together."""
    total = sum(counts)
    cells: list[tuple[float, float]] = []
    rare_count = rare_share = 0.0
    for count, share in zip(counts, shares, strict=True):
        if share * total < 8:
            rare_count, rare_share = rare_count + count, rare_share + share
        else:
            cells.append((count, share))
    if rare_share * total >= 8:
        cells.append((rare_count, rare_share))
    freedom = len(cells) - 1
    statistic = sum((count - share * total) ** 2 / (share * total) for count, share in cells)
    return (statistic - freedom) / math.sqrt(2 * freedom)
