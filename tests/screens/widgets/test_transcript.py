"""Messages as lines: wrapping, folding, and conversations of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.base.conversation import Role, ToolCall
from engine.base.text import display_safe
from engine.conversations.records import MessageRow
from engine.formats.records import Leak
from screens.widgets.messages import STRONG, part_texts, wrap
from screens.widgets.transcript import QUOTED, quote_spans
from screens.widgets.transcript_layout import NO_PART, Layout, turn_starts


def message(index: int, role: Role, content: str, turn: int = 1, **more: object) -> MessageRow:
    """A message with nothing special."""
    fields: dict[str, object] = {
        "name": None,
        "tool_calls": (),
        "tool_call_id": None,
        "model_view": None,
        "hidden": False,
        **more,
    }
    return MessageRow(index=index, turn=turn, role=role, content=content, **fields)  # type: ignore[arg-type]


def shown(layout: Layout) -> list[str]:
    """All lines, gutter and text."""
    return [
        f"{layout.line(at).gutter:<{layout.gutter}}{layout.line(at).text}".rstrip()
        for at in range(layout.height)
    ]


class TestWrap:
    @given(st.text(), st.integers(2, 120))
    def test_no_line_is_wider_than_asked(self, text: str, width: int) -> None:
        """Whatever the text, its lines fit, and only spaces and line ends are lost."""
        safe = display_safe(text).replace("\t", " ")
        lines = wrap(safe, width)

        assert all(cell_len(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == safe.replace("\n", "").replace(" ", "")

    def test_breaks_at_spaces_and_keeps_indentation(self) -> None:
        """Words stay whole where they fit, and the indentation of a line is kept."""
        assert wrap("  if one and two and three", 12) == ["  if one and", "two and", "three"]

    def test_long_words_are_cut(self) -> None:
        """A word longer than the line is cut."""
        assert wrap("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]

    def test_wide_characters_count_twice(self) -> None:
        """Wide characters take two cells."""
        assert wrap("日本語日本", 4) == ["日本", "語日", "本"]


class TestLayout:
    def test_a_turn_as_lines(self) -> None:
        """Role and turn stand in the gutter of the first line; calls, folds and notes follow the text."""
        messages = [
            message(0, "user", "Exchange the lamp ###STOP###", model_view="Exchange the lamp"),
            message(1, "assistant", "", tool_calls=(ToolCall("get_order", '{"id": 7}'),)),
            message(2, "tool", "\n".join(f"line {n}" for n in range(42)), name="get_order"),
            message(3, "assistant", ""),
            message(4, "user", "Thanks", 2, hidden=True),
        ]
        layout = Layout(messages, {0: [Leak(0, "stop-token", "###STOP###")]}, {}, 70, frozenset())

        assert shown(layout) == [
            "user 1  Exchange the lamp ###STOP###",
            "        ⊘ kept from the model: ###STOP### (stop-token)",
            'asst 1  → get_order {"id": 7}',
            "tool 1  get_order",
            "        line 0",
            "        line 1",
            "        ▸ 42 lines",
            "asst 1  (empty)",
            "",
            "user 2  Thanks",
            "        ⊘ this whole message is kept from the model",
        ]

    def test_unfolded(self) -> None:
        """What is unfolded is shown whole."""
        messages = [message(0, "tool", "\n".join(f"line {n}" for n in range(42)))]

        assert Layout(messages, {}, {}, 60, frozenset({0})).height == 42

    def test_json_is_laid_out_when_it_is_unfolded(self) -> None:
        """Folded JSON shows as much as imported as fits, unfolded it is laid out, raw it stays as imported."""
        content = '{"order":{"id":"#W63","items":[{"sku":"L-1","qty":1},{"sku":"L-2","qty":2}],"paid":true}}'
        messages = [message(0, "tool", content)]

        assert shown(Layout(messages, {}, {}, 50, frozenset())) == [
            'tool 1  {"order":{"id":"#W63","items":[{"sku":"L-1',
            '        ","qty":1},{"sku":"L-2","qty":2}],"paid":t',
            "        ▸ 7 lines",
        ]
        assert shown(Layout(messages, {}, {}, 50, frozenset({0}))) == [
            "tool 1  {",
            '          "order": {',
            '            "id": "#W63",',
            '            "items": [{"sku": "L-1", "qty": 1},',
            '        {"sku": "L-2", "qty": 2}],',
            '            "paid": true',
            "          }",
            "        }",
        ]
        raw = Layout(messages, {}, {}, 50, frozenset({0}), raw=True)
        assert "".join(raw.line(at).text for at in range(raw.height)) == content
        assert not any(raw.line(at).spans for at in range(raw.height))

    def test_styles_reach_across_lines(self) -> None:
        """A style that a line break cuts goes on in the next line."""
        text = "Take **one of these two things** now"
        layout = Layout([message(0, "assistant", text)], {}, {}, 26, frozenset())
        strong = [
            layout.line(at).text[start:end]
            for at in range(layout.height)
            for start, end, style in layout.line(at).spans
            if style == STRONG
        ]

        assert strong == ["**one of", "these two things**"]

    @given(
        st.text(alphabet='ab"{}[]:,1 \n\té日', max_size=300),
        st.sampled_from(["user", "tool"]),
        st.booleans(),
        st.booleans(),
    )
    def test_every_line_knows_its_place(
        self, content: str, role: Role, unfolded: bool, raw: bool
    ) -> None:
        """A line is the piece of its part's text that begins where it says, so a hit is marked where it stands."""
        one = message(0, role, content)
        layout = Layout([one], {}, {}, 40, frozenset({0} if unfolded else ()), raw=raw)
        texts = part_texts(one, raw=raw)

        for at in range(layout.height):
            line = layout.line(at)
            if line.part != NO_PART:
                assert texts[line.part].startswith(line.text, line.at)
                if line.text:
                    assert layout.line_of(0, line.part, line.at) == at
        if unfolded:
            lines = [layout.line(at) for at in range(layout.height)]
            drawn = "".join(line.text for line in lines if line.part != NO_PART)
            assert "".join(drawn.split()) == "".join("".join(texts).split())

    def test_one_long_line_is_told_in_characters(self) -> None:
        """Output of a single long line says its length in characters."""
        layout = Layout([message(0, "tool", "x" * 5_000)], {}, {}, 60, frozenset())

        assert shown(layout)[-1] == "        ▸ 5.0k characters"

    def test_a_preview_with_room_shows_combining_marks_whole(self) -> None:
        """Marks take no cells, so a text of many characters may fit its preview."""
        text = "\n".join(["e\u0301\u0302\u0303" * 20] * 2)
        layout = Layout([message(0, "tool", text)], {}, {}, 28, frozenset())

        assert not layout.foldable(0)

    def test_foldable(self) -> None:
        """Only what is longer than its preview can be folded."""
        layout = Layout(
            [message(0, "user", "short"), message(1, "tool", "a\nb\nc\nd")], {}, {}, 60, frozenset()
        )

        assert [layout.foldable(index) for index in (0, 1)] == [False, True]

    def test_100_000_messages(self) -> None:
        """A conversation of 100,000 messages has the same lines at its end as a short one."""
        messages = [
            message(at, "user" if at % 2 == 0 else "assistant", f"message {at}", at // 2 + 1)
            for at in range(100_000)
        ]
        layout = Layout(messages, {}, {}, 80, frozenset())

        assert layout.height == 149_999
        assert layout.line(layout.height - 1).text == "message 99999"
        assert layout.message_at(layout.start(70_001)) == 70_001
        assert len(turn_starts(messages)) == 50_000

    @given(
        st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text()), max_size=20)
    )
    def test_every_line_belongs_to_its_message(self, content: list[tuple[Role, str]]) -> None:
        """Any line number leads to the message that begins at or before it."""
        messages = [message(at, role, text) for at, (role, text) in enumerate(content)]
        layout = Layout(messages, {}, {}, 40, frozenset())

        for at in range(layout.height):
            index = layout.message_at(at)
            assert layout.start(index) <= at
            assert cell_len(layout.line(at).text) <= 40 - layout.gutter


def test_cited_words_are_found_where_they_are_drawn() -> None:
    """Of equal words those at the cited place are marked; a whole message and a place that is gone have no span."""
    rows = [message(0, "user", "No. Refund, please: a refund of refund 7")]
    assert quote_spans(rows, [(0, 32, 38), (0, 0, 0), (4, 1, 2)], raw=False) == {
        (0, 0): [(32, 38, QUOTED)]
    }
