"""What an attack came to: how many were tried, how many were survived, and what went wrong."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """One line of the table."""

    attack: str
    tried: int = 0
    survived: int = 0
    findings: list[str] = field(default_factory=list)

    def count(self, finding: str | None) -> None:
        """One more attempt; a finding says what went wrong and how to repeat it."""
        self.tried += 1
        if finding is None:
            self.survived += 1
        elif finding not in self.findings:
            self.findings.append(finding)


def table(outcomes: Iterable[Outcome]) -> str:
    """Markdown."""
    lines = ["| attack | tried | survived | found now |", "|---|---:|---:|---|"]
    for outcome in outcomes:
        found = "; ".join(text.replace("|", "\\|").replace("\n", " ")[:300] for text in outcome.findings[:5]) or "–"
        lines.append(f"| {outcome.attack} | {outcome.tried:,} | {outcome.survived:,} | {found} |")
    return "\n".join(lines)
