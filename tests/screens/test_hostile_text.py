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

from engine.conversation import ToolCall
from engine.events import JobEnded, JobProgress
from engine.rows import LeakRow, RemainingRow, Verdict
from screens.control_guard import ControlGuard
from tests.screens.driving import opened, press, settle, text
from tests.screens.fakes import FakeProject, conversation
from tests.terminal.payloads import PAYLOADS

CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def hostile(payload: str) -> FakeProject:
    """A project that holds the payload wherever text of others can stand."""
    item = conversation(1, 0.52)
    item.row = replace(
        item.row, external_id=payload, source=payload, opening=payload, reason=payload
    )
    item.messages = [
        replace(
            message,
            content=payload,
            name=payload,
            tool_calls=(ToolCall(payload, payload),) if message.role == "assistant" else (),
        )
        for message in item.messages
    ]
    assert item.score is not None
    item.score = replace(item.score, model=payload, adapter=payload, reason=payload)
    item.remaining = RemainingRow(1, "h", payload, None)
    item.leaks = [LeakRow(1, 1, payload, payload), LeakRow(1, None, payload, payload)]
    item.original = payload.encode("utf-8", "surrogatepass")
    return FakeProject([item, conversation(2, 0.3)])


def check(pilot: Pilot[None], where: str) -> None:
    """No control character in what is drawn, and no style that acts on a click."""
    strips = pilot.app.screen._compositor.render_strips()
    for strip in strips:
        for segment in strip:
            assert not CONTROL.search(segment.text), (where, segment.text)
            meta = segment.style.meta if segment.style is not None else {}
            assert not any("click" in key for key in meta), (where, meta)
            assert segment.style is None or segment.style.link is None, where


@pytest.mark.parametrize(
    ("payload", "size"),
    [(payload, (160, 50)) for payload in PAYLOADS.values()]
    + [(" ".join(PAYLOADS.values()), (80, 24))],
    ids=[*PAYLOADS, "all of them at 80 columns"],
)
async def test_every_screen_survives(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the net, too, no payload crashes a screen, becomes an action, or leaves a control character in it."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    fake = hostile(payload)
    fake.give(1, Verdict.UNSURE, payload)
    fake.undo()
    async with opened(fake, size=size) as pilot:
        check(pilot, "list")
        await press(pilot, "F")
        check(pilot, "filter dialog")
        await press(pilot, "escape", "enter", "right_square_bracket")
        check(pilot, "reader")
        for key in ("w", "o"):
            await press(pilot, key)
            check(pilot, key)
            await press(pilot, "escape")
        await press(pilot, "q", "3")
        check(pilot, "triage")
        fake.note(1, payload)
        await press(pilot, "n")
        check(pilot, "note dialog")
        await press(pilot, "escape")
        fake.emit(JobProgress(1, payload, payload, 1, 2, payload, 1.0, 1.0, payload))
        await settle(pilot)
        check(pilot, "jobs bar")
        fake.emit(JobEnded(1, payload, payload, "done", payload, payload))
        await settle(pilot)
        check(pilot, "toast")
        fake.emit(JobEnded(1, payload, payload, "failed", payload, payload))
        await settle(pilot)
        check(pilot, "error dialog")


@pytest.mark.parametrize(
    "unit", ["x\x1b[31m", "[/x]\n", "é "], ids=["one line", "lines", "accents"]
)
async def test_five_megabytes(unit: str) -> None:
    """A message of five megabytes is read, unfolded, scrolled and shown as imported."""
    payload = unit * (5_000_000 // len(unit))
    item = conversation(1, 0.52)
    item.messages[1] = replace(item.messages[1], content=payload)
    item.original = payload.encode()
    async with opened(FakeProject([item]), size=(80, 50)) as pilot:
        await press(pilot, "enter", "right_square_bracket")
        assert "▸" in text(pilot)
        await press(pilot, "enter", "end", "home")
        check(pilot, "unfolded")
        await press(pilot, "o", "end")
        check(pilot, "original")


async def test_markup_is_shown_as_it_stands() -> None:
    """Square brackets of a conversation are shown, not interpreted."""
    async with opened(hostile(PAYLOADS["markup colour"])) as pilot:
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

    def test_clean_lines_pass_untouched(self) -> None:
        """A clean line costs no copy."""
        segments = [Segment("日本 plain ▇▁")]

        assert ControlGuard().apply(segments, Color(0, 0, 0)) is segments

    async def test_app_installs_it(self) -> None:
        """The app's line filters include the guard."""
        async with opened(FakeProject([])) as pilot:
            assert any(isinstance(part, ControlGuard) for part in pilot.app.get_line_filters())
