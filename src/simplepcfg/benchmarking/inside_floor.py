"""The least time of the inside algorithm and its gradients on a GPU, width by width, with the bytes it must read."""

from dataclasses import dataclass

from simplepcfg.benchmarking.sizes import Size
from simplepcfg.benchmarking.step import BF16, TBYTES, TFLOPS, Work


@dataclass(frozen=True, slots=True)
class InsideFloor:
    """Milliseconds of the parts, none of which can overlap with another: a width needs all narrower ones."""

    flops_ms: float  # of all matrix products at the full rate, as if rules were read for free
    products_ms: float  # of the products of each width, which read all rules or are bound by flops
    splits_ms: float  # of reading the rows that are multiplied in split sums

    @property
    def total_ms(self) -> float:
        """The floor."""
        return self.products_ms + self.splits_ms


def inside_floor(size: Size, tflops: float = TFLOPS, tbytes: float = TBYTES, item: int = BF16) -> InsideFloor:
    """Return the floor of a forward and a backward pass of sentences of n words each.

    Rules [2N, N + P] are too large for the cache, so that the product of each width reads all of them: once forward and
    once for the gradient of the rows. The gradient of the rules is one product over all widths. A split sum reads two
    rows for each split forward and four backward, once for two neighbouring widths.
    """
    states, tags, batch, n = size.nonterminals, size.preterminals, size.batch, size.n
    products = 0.0
    for width in range(1, n):
        rows, columns = batch * (n - width + 1), tags if width == 1 else states
        product = _product(rows, columns, 2 * states, item)
        products += 2 * product.floor_ms(tflops, tbytes)
    for rows, columns in ((size.words, tags), (size.inner_spans, states)):
        products += _product(2 * states, rows, columns, item).floor_ms(tflops, tbytes)
    flops = Work(size.flops, 0.0).floor_ms(tflops, tbytes)
    splits = Work(0.0, size.split_bytes(item) / 2).floor_ms(tflops, tbytes)
    return InsideFloor(flops, products, splits)


def _product(m: int, k: int, n: int, item: int) -> Work:
    """Work of one matrix product [m, k] · [k, n]."""
    return Work(2.0 * m * k * n, 1.0 * item * (m * k + k * n + m * n))
