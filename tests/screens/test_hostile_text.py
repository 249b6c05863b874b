"""Text from conversations is data on every screen: it neither acts on the terminal nor on the app."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot

from engine.base.conversation import ToolCall, without_surrogates
from engine.base.events import JobEnded, JobProgress
from engine.formats.records import Leak
from screens.shell.base_app import ControlGuard
from screens.shell.dialogs import ErrorDialog
from tests.screens.driving import opened, press, settle, strips_of, text
from tests.screens.project import ScreenProject, project_of
from tests.screens.samples import SCORED, conversation
from tests.screens.watch.test_watch import turn
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def hostile(payload: str) -> ScreenProject:
    """A project with a conversation whose texts are the payload; as readers store it, without lone surrogates."""
    payload = without_surrogates(payload)
    item = conversation(1, 0.52)
    item.name = item.source = item.reason = item.remaining = payload
    item.messages = [
        replace(
            message,
            content=payload,
            name=payload,
            tool_calls=(ToolCall(payload, payload),) if message.role == "assistant" else (),
        )
        for message in item.messages
    ]
    item.leaks = [Leak(1, payload, payload), Leak(None, payload, payload)]
    item.original = payload.encode("utf-8", "surrogatepass")
    return project_of([item], config=replace(SCORED, model=payload, adapter=payload))


def check(pilot: Pilot[None], where: str) -> None:
    """No control character in what is drawn, and no style that acts on a click."""
    strips = strips_of(pilot)
    for strip in strips:
        for segment in strip:
            assert not CONTROL.search(segment.text), (where, segment.text)
            meta = segment.style.meta if segment.style is not None else {}
            assert not any("click" in key for key in meta), (where, meta)
            assert segment.style is None or segment.style.link is None, where


class TestEveryScreenSurvives:
    """Without the net, too, no payload crashes a screen, becomes an action, or leaves a control character in it."""

    @pytest.fixture(autouse=True)
    def no_net(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a screen lets through is seen."""
        monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)

    async def test_every_payload(self) -> None:
        """As a row, read, as imported; judged, with a note that says it too; in what a job tells while it runs, when it
        has ended and when it fails; in what a watch reports: names, goals, and a file that cannot be read."""
        support, name = hostile(ALL), without_surrogates(ALL)
        support.triage.note(1, name)
        support.watches.live.add(turn(1, 1, 0.2, conversation=name, source=name, goal=name))
        failure = {"event": None, "at": "2026-11-23T12:00:00Z", "error": name, "hint": name}
        support.watches.live.add(failure)
        async with opened(support, size=(80, 24)) as pilot:
            check(pilot, "list")
            for keys, place in (
                (("enter", "right_square_bracket"), "reader"),
                (("o",), "the record"),
                (("escape", "3"), "triage"),
                (("N",), "note dialog"),
                (("escape", "2", "2", "L"), "a file that cannot be read"),
                (("down",), "a turn"),
            ):
                await press(pilot, *keys)
                check(pilot, place)
            for event, place in (
                (JobProgress(1, ALL, ALL, 1, 2, ALL, 1.0, 1.0, ALL), "jobs bar"),
                (JobEnded(1, ALL, ALL, "done", ALL, ALL), "toast"),
                (JobEnded(1, ALL, ALL, "failed", ALL, ALL), "error dialog"),
            ):
                support.emit(event)
                await settle(pilot)
                check(pilot, place)
            assert isinstance(pilot.app.screen, ErrorDialog)


async def test_five_megabytes() -> None:
    """A message of five megabytes, of one long line, many lines and accents, is read, unfolded, scrolled and shown as
    imported."""
    units = ("x\x1b[31m", "[/x]\n", "é ")
    payload = "".join(unit * (5_000_000 // 3 // len(unit)) for unit in units)
    item = conversation(1, 0.52)
    item.messages[1] = replace(item.messages[1], content=payload)
    item.original = payload.encode()
    async with opened(project_of([item]), size=(80, 50)) as pilot:
        await press(pilot, "enter", "right_square_bracket")
        assert "▸" in text(pilot)
        await press(pilot, "enter", "end", "home")
        check(pilot, "unfolded")
        await press(pilot, "o", "end")
        check(pilot, "original")


async def test_markup_is_shown_as_it_stands() -> None:
    """Square brackets of a conversation are shown, not interpreted; the app's line filters include the guard."""
    async with opened(hostile(PAYLOADS["markup colour"])) as pilot:
        assert any(isinstance(part, ControlGuard) for part in pilot.app.get_line_filters())
        await press(pilot, "enter")

        assert "[red]gone?[/red]" in text(pilot)


class TestControlGuard:
    def test_net_under_the_widgets(self) -> None:
        """Control characters that a widget let through are replaced; style and other segments stay."""
        style = Style(bold=True)
        segments = [Segment("a\x1b]52;c;x\x07b\x9b2J", style), Segment("plain")]

        guarded = ControlGuard().apply(segments, Color(0, 0, 0))

        assert guarded[0].text.startswith("a␛]52;c;x␇b")
        assert guarded[0].style is style
        assert guarded[1] is segments[1]

    @pytest.mark.parametrize("text", list(PAYLOADS.values()), ids=list(PAYLOADS))
    def test_net_keeps_the_width(self, text: str) -> None:
        """What the net rewrites takes the cells that were measured for it, and holds nothing that acts."""
        guarded = ControlGuard().apply([Segment(text), Segment("|")], Color(0, 0, 0))

        assert cell_len(guarded[0].text) == cell_len(text)
        assert not CONTROL.search(guarded[0].text)
