"""The questions that the merge desk asks in dialogs. Each function passes the answer on, and nothing without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import MemberRow, Pair
from screens.merge_review.bulk_dialogs import probability_from
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.goal_dialogs import NO_GROUP, pick_group
from screens.shell.workbench_screen import WorkbenchScreen


def ask_pair(screen: WorkbenchScreen[Any], then: Callable[[Pair], None]) -> None:
    """Asks for any two groups; `then` gets their ids."""

    def second(a: str) -> None:
        pick_group(screen, "with", lambda b: then((a, b)), without=a)

    pick_group(screen, "Merge", second)


def ask_move(
    screen: WorkbenchScreen[Any], members: Sequence[MemberRow], then: Callable[[int, str], None]
) -> None:
    """Asks for one of the members, then for a group; `then` gets both ids, an empty one for no group."""

    def chosen(conversation: int | None) -> None:
        if conversation is not None:
            pick_group(screen, "Move it to", partial(then, conversation), none=NO_GROUP)

    choices = [(member.conversation_id, one_line(member.text, 90)) for member in members]
    screen.app.push_screen(ChoiceDialog("Move which member", choices), chosen)


def ask_least_similarity(
    screen: WorkbenchScreen[Any], now: float, then: Callable[[float], None]
) -> None:
    """Asks for the similarity of labels below which no pair is proposed; `now` is the present one."""

    def answered(text: str | None) -> None:
        if text is None:
            return
        value = 0.0 if text.strip() in ("0", "0.0", ".0") else probability_from(text)
        if value is None:
            screen.notify("The least similarity is a number from 0 to 1.", markup=False)
        else:
            then(value)

    title = "Propose no pair whose labels are less similar than (0: propose all)"
    screen.app.push_screen(TextDialog(title, value=number_format.probability(now)), answered)
