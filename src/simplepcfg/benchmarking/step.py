"""What a training step of an SN-PCFG cannot do without, part by part: flops of its matrix products, bytes it moves."""

from dataclasses import dataclass

from simplepcfg.benchmarking.sizes import Size

# What matrix products and copies of this size reach on an H200, in bf16 (of 989 TFLOP/s and 4.8 TB/s on paper).
TFLOPS, TBYTES = 790.0, 4.25
BF16, FP32 = 2, 4


@dataclass(frozen=True, slots=True)
class Work:
    """Flops and bytes; either may be the longer."""

    flops: float
    bytes: float

    def floor_ms(self, tflops: float = TFLOPS, tbytes: float = TBYTES) -> float:
        """At these rates, each of the two hidden behind the other."""
        return 1e3 * max(self.flops / (tflops * 1e12), self.bytes / (tbytes * 1e12))


@dataclass(frozen=True, slots=True)
class StepSize:
    """A batch and a grammar, the width of embeddings, the vocabulary, and the bytes of a number in products."""

    inside: Size
    embedding: int
    words: int
    item: int = BF16

    def forward(self) -> dict[str, Work]:
        """Of each part before the inside algorithm."""
        states, tags = self.inside.nonterminals, self.inside.preterminals
        symbols, width = states + tags, self.embedding
        rows = states + 2 * symbols  # parents, left and right children: one layer each
        # Emissions have five layers. The activations that are written and read again by backward: of a residual layer
        # its ReLU's result and its output, of emissions the first layer's output and three for each of two blocks.
        return {
            "networks": Work(2.0 * (rows + 5 * tags) * width * width, (2.0 * rows + 7.0 * tags) * width * self.item),
            "rules": Work(4.0 * states * symbols * width, 2.0 * states * symbols * self.item),
            "emissions": Work(
                2.0 * tags * (self.words + self.inside.words) * width, 1.0 * tags * self.words * self.item
            ),
        }

    def both(self) -> dict[str, Work]:
        """Of each, forward and backward: what was written is read again, and the gradient of rules as well."""
        return {
            name: Work(3 * work.flops, (3 if name == "rules" else 2) * work.bytes)
            for name, work in self.forward().items()
        }

    def step(self) -> Work:
        """Of all parts and the inside algorithm; Adam, a few percent, moves its bytes beside the products."""
        both = self.both()
        return Work(sum(work.flops for work in both.values()) + self.inside.flops, both["rules"].bytes)


def adam(parameters: int) -> Work:
    """Weights, both moments and the gradient are read, and all but the gradient written, in float32."""
    return Work(0.0, 7.0 * FP32 * parameters)
