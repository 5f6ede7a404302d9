"""Lower bounds of the inside algorithm and of a training step of an SN-PCFG: flops of products, bytes of memory."""

from dataclasses import dataclass

from benchmarking.sizes import Size

# Measured rates of large bf16 matrix products and copies on an H200, whose specified rates are 989 TFLOP/s and 4.8
# TB/s.
TFLOPS, TBYTES = 790.0, 4.25
BF16, FP32 = 2, 4


@dataclass(frozen=True, slots=True)
class Work:
    """Flops and bytes of one part."""

    flops: float
    bytes: float

    def floor_ms(self, tflops: float = TFLOPS, tbytes: float = TBYTES) -> float:
        """Return the time at these rates, if arithmetic and memory traffic overlap completely."""
        return 1e3 * max(self.flops / (tflops * 1e12), self.bytes / (tbytes * 1e12))


@dataclass(frozen=True, slots=True)
class StepSize:
    """Sizes of a batch, a grammar, embeddings and vocabulary, and the bytes of an operand of matrix products."""

    inside: Size
    embedding: int
    words: int
    emission_blocks: int  # residual blocks of the emission network, as the model's configuration has them
    item: int = BF16

    def forward(self) -> dict[str, Work]:
        """Return the forward work of each part before the inside algorithm."""
        states, tags = self.inside.nonterminals, self.inside.preterminals
        symbols, width = states + tags, self.embedding
        rows = states + 2 * symbols  # parents, left and right children: one layer each
        # The emission network is a linear layer and blocks of two. The forward pass writes activations that the
        # backward pass reads: two for each residual layer, and for emissions the first output and three for each block.
        layers, activations = 1 + 2 * self.emission_blocks, 1 + 3 * self.emission_blocks
        return {
            "networks": Work(
                2.0 * (rows + layers * tags) * width * width, (2.0 * rows + activations * tags) * width * self.item
            ),
            "rules": Work(4.0 * states * symbols * width, 2.0 * states * symbols * self.item),
            "emissions": Work(
                2.0 * tags * (self.words + self.inside.words) * width, 1.0 * tags * self.words * self.item
            ),
        }

    def both(self) -> dict[str, Work]:
        """Return the work of each part in both passes, including the gradient of the rules."""
        return {
            name: Work(3 * work.flops, (3 if name == "rules" else 2) * work.bytes)
            for name, work in self.forward().items()
        }

    def step(self) -> Work:
        """Return the work of all parts and of the inside algorithm, without Adam, which takes a few percent."""
        both = self.both()
        return Work(sum(work.flops for work in both.values()) + self.inside.flops, both["rules"].bytes)


def adam(parameters: int) -> Work:
    """Return the work of Adam in float32, which reads four tensors and writes three."""
    return Work(0.0, 7.0 * FP32 * parameters)


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
