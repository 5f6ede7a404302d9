"""Lower bounds of the parts of a training step of an SN-PCFG: flops of matrix products, and bytes of memory traffic."""

from dataclasses import dataclass

from simplepcfg.benchmarking.sizes import Size

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
    item: int = BF16

    def forward(self) -> dict[str, Work]:
        """Return the forward work of each part before the inside algorithm."""
        states, tags = self.inside.nonterminals, self.inside.preterminals
        symbols, width = states + tags, self.embedding
        rows = states + 2 * symbols  # parents, left and right children: one layer each
        # The emission network has five layers. The forward pass writes activations that the backward pass reads: two
        # for each residual layer, and for emissions the first layer's output and three for each of two blocks.
        return {
            "networks": Work(2.0 * (rows + 5 * tags) * width * width, (2.0 * rows + 7.0 * tags) * width * self.item),
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
