"""A model of your own around `inside`, with torch.compile, autocast and sentences of different lengths.

python examples/compiled_model.py
"""

import torch
from torch import Tensor, nn

from simplepcfg import inside


class Grammar(nn.Module):
    """A simple PCFG whose rules and emissions are computed from embeddings of its symbols."""

    def __init__(self, words: int, nonterminals: int = 16, preterminals: int = 32, size: int = 32) -> None:
        super().__init__()
        self.root = nn.Parameter(torch.randn(nonterminals))
        self.parents = nn.Parameter(torch.randn(2 * nonterminals, size))  # as left and as right-hand rules
        self.tags = nn.Parameter(torch.randn(preterminals, size))
        self.network = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        self.to_children = nn.Linear(size, nonterminals + preterminals)
        self.to_words = nn.Linear(size, words)

    def forward(self, sentences: Tensor, lengths: Tensor) -> Tensor:
        """Compute log p of each sentence; sentences [B, n] are padded at the end, lengths are [B]."""
        rules = self.to_children(self.network(self.parents)).float().softmax(-1)  # [2N, N + P]
        emissions = self.to_words(self.network(self.tags)).float().log_softmax(-1)  # [P, words]
        return inside(emissions.T[sentences], self.root.softmax(-1), *rules.chunk(2), lengths=lengths)


def train(steps: int = 60, compiler: str = "inductor") -> list[float]:
    """Train on sentences that count upwards, and return the loss of each step, in nats a word."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    grammar = Grammar(words=12).to(device)
    model = torch.compile(grammar, fullgraph=True, backend=compiler)
    optimizer = torch.optim.Adam(grammar.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        lengths = torch.randint(2, 9, (16,))  # on the CPU, where `inside` reads them
        sentences = 4 * torch.randint(2, (16, 1)) + torch.arange(8)  # what lies beyond a length is ignored
        with torch.autocast(device.type, dtype=torch.bfloat16):  # the networks; `inside` keeps its own precision
            loss = -model(sentences.to(device), lengths).sum() / lengths.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    found = train()
    print(f"from {found[0]:.2f} to {found[-1]:.2f} nats a word")
