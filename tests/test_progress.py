"""Stages of a computation and who hears of them."""

from simplepcfg.progress import heard_by, stage


class Listener:
    def __init__(self) -> None:
        self.told: list[object] = []

    def begin(self, what: str, total: float | None) -> None:
        self.told.append((what, total))

    def advance(self, amount: float) -> None:
        self.told.append(amount)

    def end(self) -> None:
        self.told.append("end")


def test_stages_are_told_by_their_purpose() -> None:
    listener = Listener()
    with heard_by(listener), stage("evaluating english"), stage("3 sentences", 3) as advance:
        advance(2)
        with stage("part of it", 5) as advance_part:
            advance_part(5)
        advance(1)
    assert listener.told == [
        ("evaluating english", None),
        ("evaluating english: 3 sentences", 3),
        2,
        1,
        "end",
        "end",
    ]


def test_without_a_listener_nothing_happens() -> None:
    with stage("nobody hears of it", 1) as advance:
        advance(1)
