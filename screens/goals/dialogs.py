"""Dialogs about groups: which side, which group, how to split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine import number_format
from engine.errors import WorkbenchError
from engine.records.goals import GoalDecision, GoalGroup, SplitPart
from engine.services.goals.port import Goals
from engine.text import one_line
from screens.goals import formatting
from screens.merge_review.group_pane import member_lines
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_dialog import refusal_content
from screens.widgets.background import background
from screens.widgets.choices import Choices

MOST_PARTS = 9
MOST_LISTED = 500
"""Groups that a dialog lists."""
PART_MEMBERS = 4

Letter = Literal["a", "b"]


class SideDialog(Dialog[Letter | None]):
    """Asks which of the two groups is meant; one key answers."""

    PLACE = "side"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "dismiss('a')", "A", tooltip="The group on the left"),
        Binding("b", "dismiss('b')", "B", tooltip="The group on the right"),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, title: str, a: GoalGroup, b: GoalGroup) -> None:
        super().__init__()
        self._title, self._groups = title, (a, b)

    def compose(self) -> ComposeResult:
        """Both groups, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content(one_line(self._title))
            yield Choices(*[Option(group_content(group)) for group in self._groups], markup=False)
            yield Static(hint_line(("a b", "says which"), ("escape", "leaves it")))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click answers."""
        self.dismiss("a" if event.option_index == 0 else "b")


def group_content(group: GoalGroup) -> Content:
    """A group as a line to choose."""
    return Content.assemble(
        (f"{group.size:>7,}  ", "$tone-muted"),
        (formatting.label_of(group), ""),
        (f"  {formatting.GLYPHS['pin']}" if group.pinned else "", "$tone-accent"),
    )


class GroupPicker(Dialog[str | None]):
    """Asks for a group: words sieve the list; answers with its id, the empty id for none of them."""

    PLACE = "group"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "Next group", priority=True),
        Binding("up", "step(-1)", "Previous group", priority=True),
        Binding("enter", "choose", "Choose", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, title: str, groups: Sequence[GoalGroup], none: str = "") -> None:
        """Lists these groups, and behind them `none` where none of them can be meant."""
        super().__init__()
        self._title, self._groups, self._none = title, groups, none
        self._ids: list[str] = []

    def compose(self) -> ComposeResult:
        """Words, list, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content(one_line(self._title))
            yield Input(placeholder="words of its label")
            yield Choices(markup=False)
            yield Static(hint_line(("↑↓", "moves"), ("enter", "chooses"), ("escape", "leaves it")))

    def on_mount(self) -> None:
        """Lists all."""
        self._list("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists what holds the words."""
        self._list(event.value)

    def _list(self, text: str) -> None:
        words = text.lower().split()
        found = [
            group
            for group in self._groups
            if all(word in f"{group.label} {group.description}".lower() for word in words)
        ][:MOST_LISTED]
        self._ids = [group.id for group in found]
        options = [Option(group_content(group)) for group in found]
        if self._none:
            self._ids.append("")
            options.append(Option(Content.styled(f"{'':>7}  {self._none}", "$tone-muted")))
        choices = self.query_one(Choices)
        choices.set_options(options)
        choices.highlighted = 0 if options else None

    def action_step(self, by: int) -> None:
        """Moves through the list while the words keep the keys."""
        choices = self.query_one(Choices)
        if self._ids:
            at = (choices.highlighted or 0) + by
            choices.highlighted = min(max(at, 0), len(self._ids) - 1)

    def action_choose(self) -> None:
        """Answers with the group under the cursor."""
        at = self.query_one(Choices).highlighted
        if at is not None and self._ids:
            self.dismiss(self._ids[at])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click answers."""
        self.dismiss(self._ids[event.option_index])


class SplitDialog(Dialog[list[SplitPart] | None]):
    """Shows how k-means would part a group; answers with the parts when that is wanted."""

    PLACE = "split"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus", "parts(1)", "More parts", key_display="→"),
        Binding("left,minus", "parts(-1)", "Fewer parts", key_display="←"),
        Binding("enter", "split", "Split", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, goals: Goals, group: GoalGroup) -> None:
        super().__init__()
        self._goals, self._group = goals, group
        self._count = 2
        self._parts: list[SplitPart] | None = None

    def compose(self) -> ComposeResult:
        """Count, parts, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(f"Split “{formatting.label_of(self._group, 60)}”")
            yield Static(id="count")
            with VerticalScroll():
                yield Static(id="parts")
            yield Static(
                hint_line(
                    ("← →", "fewer, more parts"), ("enter", "splits"), ("escape", "leaves it")
                )
            )

    def on_mount(self) -> None:
        """Begins with two parts."""
        self.query_one(VerticalScroll).focus()
        self._preview()

    def action_parts(self, by: int) -> None:
        """Looks at fewer or more parts."""
        count = min(max(self._count + by, 2), MOST_PARTS, max(2, self._group.size))
        if count != self._count:
            self._count = count
            self._preview()

    def _preview(self) -> None:
        self._parts = None
        self._tell(Content.styled(f"into {self._count} parts …", "$tone-muted"))
        background(
            self,
            lambda: self._goals.split_preview(self._group.id, self._count),
            self._show,
            self._failed,
            group="preview",
        )

    def _failed(self, error: WorkbenchError) -> None:
        self._tell(refusal_content(error))

    def _show(self, parts: list[SplitPart]) -> None:
        self._parts = parts
        sizes = " + ".join(f"{part.size:,}" for part in parts)
        self._tell(Content.assemble((f"into {len(parts)}: ", "$tone-muted"), (sizes, "bold")))
        width = max(20, self.query_one(VerticalScroll).scrollable_content_region.width)
        lines: list[Content] = []
        for number, part in enumerate(parts, 1):
            words = one_line(" ".join(part.words), 80)
            lines.append(
                Content.assemble(
                    (f"{number}  {part.size:,}  ", "bold"), (words, "bold $tone-accent")
                )
            )
            for member in part.members[:PART_MEMBERS]:
                lines += member_lines(member, width, doubtful=False)
            lines.append(Content(""))
        self.query_one("#parts", Static).update(Content("\n").join(lines))

    def _tell(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_split(self) -> None:
        """Answers, once the parts are shown and there are several."""
        if self._parts is not None and len(self._parts) > 1:
            self.dismiss(self._parts)


def split_group(
    screen: Screen[Any],
    goals: Goals,
    group: GoalGroup,
    write: Callable[[Callable[[], GoalDecision], Callable[[GoalDecision], None]], None],
) -> None:
    """Shows how a group would be parted, and has it written when that is wanted."""

    def chosen(parts: list[SplitPart] | None) -> None:
        if parts is not None:
            ids = [part.conversation_ids for part in parts]
            write(
                lambda: goals.split(group.id, ids),
                lambda _: screen.notify(
                    f"Split into {number_format.counted(len(ids), 'group')}; u takes it back.",
                    markup=False,
                ),
            )

    screen.app.push_screen(SplitDialog(goals, group), chosen)
