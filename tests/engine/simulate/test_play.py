"""The engine that runs plays concurrently, with scripted replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.model.chat import Call, ChatMessage, Completion, Ending, Play, Role
from engine.simulate.play import EndedPlay, FailedCall, ParallelPlays
from tests.engine.simulate.playing import play_all


@dataclass(frozen=True)
class Talk:
    """A play that calls these roles in order; its result is their replies."""

    key: str
    roles: Sequence[Role]
    fault: int = -1
    closed: list[str] = field(default_factory=list)

    def play(self) -> Play:
        """Raises instead of making the call with the number `fault`."""
        said = []
        try:
            for number, role in enumerate(self.roles):
                if number == self.fault:
                    raise KeyError("place")
                message = ChatMessage("user", f"{self.key}{number}")
                said.append((yield Call("talk", role, (message,))).text)
        finally:
            self.closed.append(self.key)
        return Ending(result={"said": said})


def echo(calls: Sequence[Call]) -> list[Completion | FailedCall]:
    return [Completion(call.messages[0].content.upper(), "end") for call in calls]


def everything(talks: Sequence[Talk], parallel: int) -> tuple[list[EndedPlay], list[str]]:
    """Runs the plays; returns their endings and the calls of each round."""
    asked: list[str] = []

    def noting(calls: Sequence[Call]) -> list[Completion | FailedCall]:
        asked.append(" ".join(call.messages[0].content for call in calls))
        return echo(calls)

    return list(play_all(talks, noting, parallel=parallel)), asked


class TestSideBySide:
    def test_rounds(self) -> None:
        """As many plays as allowed run at a time; when one ends, the next begins."""
        talks = [Talk("a", ["user"]), Talk("b", ["user"] * 3), Talk("c", ["user"] * 2)]
        played, asked = everything(talks, 2)
        assert asked == ["a0 b0", "b1 c0", "b2 c1"]
        assert [one.key for one in played] == ["a", "b", "c"]
        assert played[1].ending.result == {"said": ["B0", "B1", "B2"]}


class TestModels:
    def test_one_role_at_a_time(self) -> None:
        """Each round calls one role, that with most waiting plays first, and stays with it while any play waits
        for it.
        """
        talks = [
            Talk("a", ["user", "assistant"]),
            Talk("b", ["user", "user", "assistant"]),
            Talk("c", ["judge", "assistant"]),
        ]
        _, asked = everything(talks, 3)
        assert asked == ["a0 b0", "b1", "a1 b2", "c0", "c1"]

    def test_roles_of_one_model_are_asked_together(self) -> None:
        """Where one model plays several roles, a round has the calls of all of them."""
        playing = ParallelPlays(
            [Talk("a", ["user"]), Talk("b", ["assistant"]), Talk("c", ["judge"])],
            parallel=3,
            model_of=lambda role: role == "judge",
        )
        assert [call.role for call in playing.next_calls()] == ["user", "assistant"]


class TestBreakingOff:
    def test_no_reply(self) -> None:
        """A play without a reply ends with the reason and is closed; the others continue."""
        talks = [Talk("a", ["user"] * 2), Talk("b", ["user"] * 2)]
        playing = ParallelPlays(talks, parallel=2, model_of=lambda role: role)
        playing.answer(echo(playing.next_calls()))
        playing.answer([FailedCall("too long"), *echo(playing.next_calls()[1:])])
        first, second = playing.take_ended()
        assert (first.key, first.reason, first.ending) == ("a", "too long", Ending())
        assert second.reason is None
        assert talks[0].closed == ["a"]

    def test_a_fault(self) -> None:
        """A play that raises ends with the error; the others continue."""
        talks = [Talk("a", ["user"] * 2, fault=1), Talk("b", ["user"]), Talk("c", [], fault=0)]
        played, _ = everything([*talks, Talk("d", ["user"], fault=0)], 4)
        assert {one.key: one.reason for one in played} == {
            "a": "a fault: KeyError: 'place'",
            "b": None,
            "c": None,
            "d": "a fault: KeyError: 'place'",
        }
