"""Dialogs about goal groups that the goals and the merge desk share: pick a group, split a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.number_format import figure
from engine.base.text import one_line
from engine.goals.records import GoalDecision, GoalGroup, SplitPart, SplitProposal
from engine.goals.service.service import GoalService
from screens.shell.dialogs.basic import Dialog, TextDialog, hint_line
from screens.shell.dialogs.run import refusal_content
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import background
from screens.widgets.choices import Choices
from screens.widgets.groups.decisions import GLYPHS
from screens.widgets.groups.members import member_lines
from screens.widgets.groups.text import has_words, label_of
from screens.widgets.line_input import LineInput

MOST_PARTS = 9
"""Parts that a group can be split into at once."""
MOST_LISTED = 500
"""Groups that the picker lists."""
NO_GROUP = "no group (outliers)"
"""The line of a picker for conversations that are to be in no group."""
PART_MEMBERS = 4
"""Members that are shown of each part of a split."""


def group_content(group: GoalGroup) -> Content:
    """A group as a line of a choice."""
    return Content.assemble(
        (f"{group.size:>7,}  ", "$tone-muted"),
        (label_of(group), ""),
        (f"  {GLYPHS['pin']}" if group.pinned else "", "$tone-accent"),
    )


class GroupPicker(Dialog[str | None]):
    """Asks for a group by words of its label; answers with its id, or with an empty id for no group."""

    PLACE = "group"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "Next group", priority=True),
        Binding("up", "step(-1)", "Previous group", priority=True),
        Binding("enter", "choose", "Choose", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, title: str, groups: Sequence[GoalGroup], none: str = "") -> None:
        """`none` is the line for no group, which comes last; empty leaves it out."""
        super().__init__()
        self._title, self._groups, self._none = title, groups, none
        self._ids: list[str] = []

    def compose(self) -> ComposeResult:
        """The words, the list, the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content(one_line(self._title))
            yield LineInput(placeholder="words of its label")
            yield Choices(markup=False)
            yield Static(hint_line(("↑↓", "moves"), ("enter", "chooses"), ("escape", "leaves")))

    def on_mount(self) -> None:
        """Lists all groups."""
        self._list("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists the groups with these words."""
        self._list(event.value)

    def _list(self, text: str) -> None:
        words = text.lower().split()
        found = [group for group in self._groups if has_words(group, words)][:MOST_LISTED]
        self._ids = [group.id for group in found]
        options = [Option(group_content(group)) for group in found]
        if self._none:
            self._ids.append("")
            options.append(Option(Content.styled(f"{'':>7}  {self._none}", "$tone-muted")))
        choices = self.query_one(Choices)
        choices.set_options(options)
        choices.highlighted = 0 if options else None

    def action_step(self, by: int) -> None:
        """Moves through the list while the words keep the focus."""
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


def pick_group(
    screen: WorkbenchScreen[Any],
    title: str,
    then: Callable[[str], None],
    *,
    without: str | None = None,
    none: str = "",
) -> None:
    """Reads the groups and asks for one of them.

    Args:
        then: Gets its id; an empty one for no group.
        without: Id of a group that is not listed.
        none: The line for no group; empty leaves it out.
    """

    def chosen(group: str | None) -> None:
        if group is not None:
            then(group)

    def pick(groups: list[GoalGroup]) -> None:
        others = [group for group in groups if group.id != without]
        screen.app.push_screen(GroupPicker(title, others, none), chosen)

    screen.in_background(screen.services.goals.groups, pick, group="groups")


class SplitDialog(Dialog[list[SplitPart] | None]):
    """Shows how k-means would split a group; answers with the parts when they are accepted."""

    PLACE = "split"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus", "parts(1)", "More parts", key_display="→"),
        Binding("left,minus", "parts(-1)", "Fewer parts", key_display="←"),
        Binding("enter", "split", "Split", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, goals: GoalService, group: GoalGroup) -> None:
        super().__init__()
        self._goals, self._group = goals, group
        self._count = 2
        self._parts: list[SplitPart] | None = None

    def compose(self) -> ComposeResult:
        """The number of parts, the parts, the keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(f"Split “{label_of(self._group, 60)}”")
            yield Static(id="count")
            with VerticalScroll():
                yield Static(id="parts")
            yield Static(
                hint_line(("← →", "fewer, more parts"), ("enter", "splits"), ("escape", "leaves"))
            )

    def on_mount(self) -> None:
        """Shows two parts."""
        self.query_one(VerticalScroll).focus()
        self._preview()

    def action_parts(self, by: int) -> None:
        """Shows fewer or more parts."""
        count = min(max(self._count + by, 2), MOST_PARTS, max(2, self._group.size))
        if count != self._count:
            self._count = count
            self._preview()

    def _preview(self) -> None:
        self._parts = None
        self._show_count(Content.styled(f"into {self._count} parts …", "$tone-muted"))
        background(
            self,
            lambda: self._goals.split_preview(self._group.id, self._count),
            self._show,
            self._failed,
            group="preview",
        )

    def _failed(self, error: WorkbenchError) -> None:
        self._show_count(refusal_content(error))

    def _show(self, parts: list[SplitPart]) -> None:
        self._parts = parts
        sizes = " + ".join(f"{part.size:,}" for part in parts)
        self._show_count(Content.assemble((f"into {len(parts)}: ", "$tone-muted"), (sizes, "bold")))
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

    def _show_count(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_split(self) -> None:
        """Answers if several parts are shown."""
        if self._parts is not None and len(self._parts) > 1:
            self.dismiss(self._parts)


def proposal_content(one: SplitProposal) -> Content:
    """A proposed split as a line of a choice: label, sizes, how far apart its parts are, the model's word, words."""
    sizes = " + ".join(f"{len(part):,}" for part in one.parts)
    told = f" · one goal {figure(one.same)}, says the model" if one.same is not None else ""
    words = one_line(" | ".join(" ".join(part[:3]) for part in one.words), 60)
    return Content.assemble(
        (one_line(one.label, 30) or "–", "bold"),
        f"  {sizes} · apart {figure(one.apart)}{told}  ",
        (words, "$tone-muted"),
    )


def split_group(
    screen: Screen[Any],
    goals: GoalService,
    group: GoalGroup,
    write: Callable[[Callable[[], GoalDecision], Callable[[GoalDecision], None]], None],
) -> None:
    """Shows how k-means would split a group; `write` stores the split when it is accepted."""

    def chosen(parts: list[SplitPart] | None) -> None:
        if parts is not None:
            ids = [part.conversation_ids for part in parts]
            write(
                lambda: goals.split(group.id, ids),
                lambda _: screen.notify(
                    f"Split into {number_format.counted(len(ids), 'group')}; u undoes it.",
                    markup=False,
                ),
            )

    screen.app.push_screen(SplitDialog(goals, group), chosen)


def ask_label(
    screen: Screen[Any], title: str, group: GoalGroup, then: Callable[[str], None]
) -> None:
    """Asks for another label of a group; `then` gets it unless it is empty."""

    def answered(text: str | None) -> None:
        label = " ".join((text or "").split())
        if label:
            then(label)

    screen.app.push_screen(TextDialog(title, value=group.label), answered)
