"""The columns of the lists of groups and of their members, the orders of the groups, and the clustering in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import middle_cut, one_line
from engine.goals.records import ClusteringSummary, GoalGroup, MemberRow, subject_of_reasons
from screens.widgets.formatting import STATE_LOOKS, date_and_minute, rate_piece
from screens.widgets.groups import (
    GLYPHS,
    LONG_LABEL_LIMIT,
    UNSTABLE,
    UNSTABLE_SIGN,
    label_of,
    state_bar,
)
from screens.widgets.row_table import NO_VALUE, Column, Piece

MAX_TEXT_CHARACTERS = 400
"""Most characters that are shown of the text of a member."""

NAME_WIDTH = 18
"""Cells of the name of a conversation in the list of members."""
LABEL_WIDTH = 28
"""Fewest cells of the label of a group or theme in the list."""
SIZE_WIDTH, FAILED_WIDTH = 8, 11
"""Most cells of the number of conversations of a group, and of that of failed ones: `12,345`, `120 of 345`."""
FIGURES_WIDTH = SIZE_WIDTH + number_format.RATE_WIDTH + FAILED_WIDTH
"""Most cells of the figures of a group that are as wide as they need; what they do not need the label has."""


def rate_of(group: GoalGroup) -> float | None:
    """Returns the rate of ended conversations among the members with a score; None where none has one."""
    rate = group.states.rate
    return None if rate is None else rate.value


def failed_share(group: GoalGroup) -> float | None:
    """Returns the share of failed conversations among the members with a known outcome; None where none has one."""
    return group.failed / group.with_outcome if group.with_outcome else None


def is_theme(group: GoalGroup) -> bool:
    """Returns whether a row is a theme, with the figures of its goals."""
    return group.id.startswith("theme:")


def group_columns(
    largest: Callable[[], float],
    folded: Collection[str] = (),
    noun: str = "goal",
    groups: Sequence[GoalGroup] = (),
) -> list[Column[GoalGroup]]:
    """Returns the columns of the list of groups; the label has the cells that figures do not fill.

    How many are scored is listed only where some are not, stability and failures only where they are known.

    Args:
        groups: The groups that are listed.
        largest: Gives the largest share, whose bar is full.
        folded: Ids of the themes whose goals are not listed.
        noun: What a group is, the title of the first column.
    """

    def label(group: GoalGroup) -> Sequence[Piece]:
        """Returns the label, after a pin where the group is pinned; a theme with its sign, its goals below it.

        A folded theme says how many goals it has.
        """
        text = label_of(group, LONG_LABEL_LIMIT)
        if is_theme(group):
            sign, count = ("+", f"  {len(group.made_of)}") if group.id in folded else ("-", "")
            return [(f"{sign} ", "tone--accent"), (text, "tone--bright"), (count, "tone--muted")]
        pin = f"{GLYPHS['pin']} " if group.pinned else ""
        indent = "    " if group.theme else ""
        return [(f"{indent}{pin}", "tone--accent"), (text, "")]

    def share_bar(group: GoalGroup) -> Sequence[Piece]:
        """Returns the share as a bar."""
        full = largest()
        return [(number_format.bar(group.share / full if full else 0.0), "tone--accent")]

    size_width = _used_width("size", SIZE_WIDTH, [f"{group.size:,}" for group in groups])
    rates = [_rate_piece(group)[0] for group in groups]
    rate_width = _used_width("", number_format.RATE_WIDTH, rates)
    failed_width = FAILED_WIDTH
    if any(group.with_outcome for group in groups):  # else the column is not listed
        failed_width = _used_width("failed", FAILED_WIDTH, [group.failures for group in groups])
    label_width = LABEL_WIDTH + FIGURES_WIDTH - (size_width + rate_width + failed_width)
    columns = [
        Column("label", noun, label_width, label, flexible=True,
               value=lambda group: group.label.lower(), order="label"),
        Column("size", "size", size_width, lambda group: [(f"{group.size:,}", "")], right=True,
               value=lambda group: group.size, descending=True, keep=8),
        Column("bar", "", number_format.BAR_WIDTH, share_bar, keep=3),
        Column("share", "share", 6, lambda group: [(f"{100 * group.share:4.1f}%", "")],
               right=True, keep=5),
        Column("failed", "failed", failed_width, lambda group: [(group.failures, "")] if group.failures else NO_VALUE,
               right=True, value=failed_share, descending=True, order="share that failed, highest first", keep=8),
        Column("rate", "ended", number_format.BAR_WIDTH + 1 + rate_width, _states_cell,
               value=rate_of, order="share that ended, lowest first", keep=7),
        Column("coverage", "scored", 6, _coverage_cell, right=True, keep=4),
        Column("stability", "stable", 6, _stability_cell, right=True,
               value=lambda group: group.stability, order="stability, least first", keep=6),
    ]  # fmt: skip
    idle = {"coverage"} if not any(group.states.unscored for group in groups) else set()
    if all(group.stability is None for group in groups):
        idle.add("stability")
    if not any(group.with_outcome for group in groups):
        idle.add("failed")
    return [column for column in columns if column.key not in idle]


def _rate_piece(group: GoalGroup) -> tuple[str, str]:
    """Returns the rate of ended conversations with its tone."""
    return rate_piece(group.states.above, group.states.scored, faint="tone--muted")


def _states_cell(group: GoalGroup) -> Sequence[Piece]:
    """Returns the states of all its conversations as a bar, and the rate of ended ones."""
    return [*state_bar(group.states), (" ", ""), _rate_piece(group)]


def _coverage_cell(group: GoalGroup) -> Sequence[Piece]:
    """Returns which part of the conversations has a score."""
    scored, unscored = group.states.scored, group.states.unscored
    if not scored:
        return NO_VALUE
    if not unscored:
        return [("all", "tone--muted")]
    return [(f"{100 * scored / (scored + unscored):.0f}%", "tone--unscored")]


def _stability_cell(group: GoalGroup) -> Sequence[Piece]:
    """Returns the stability, with a sign where it is low."""
    value = group.stability
    if value is None:
        return NO_VALUE
    sign = f"{UNSTABLE_SIGN} " if value < UNSTABLE else ""
    return [(sign, "tone--borderline"), (number_format.probability(value), "")]


def _used_width(title: str, most: int, texts: Sequence[str]) -> int:
    """Returns the width of a column with these texts, at most `most`; its title is shown with the mark of the sort."""
    return min(most, max(len(text) for text in (f"{title} ▾", *texts)))


def member_columns() -> list[Column[MemberRow]]:
    """Returns the columns of the members of a group."""

    def state(row: MemberRow) -> Sequence[Piece]:
        """Returns the sign of the state."""
        look = STATE_LOOKS[row.state]
        return [(look.glyph, look.tone_class)]

    def text(row: MemberRow) -> Sequence[Piece]:
        """Returns the text that was clustered, without a beginning that many members share."""
        text = f"{'… ' if row.start else ''}{row.text[row.start :]}"
        return [(one_line(text, MAX_TEXT_CHARACTERS) or "(no text)", "")]

    def doubt(row: MemberRow) -> Sequence[Piece]:
        """Returns the doubt, marked where the member is at least as near to another group."""
        tone = "tone--borderline" if row.doubt >= 1 else ""
        return [(f"{row.doubt:.2f}", tone)]

    return [
        Column("state", "", 1, state),
        Column("name", "conversation", NAME_WIDTH, lambda r: [(middle_cut(r.external_id, NAME_WIDTH), "tone--muted")],
               keep=3),
        Column("text", "goal as written", 20, text, flexible=True),
        Column("distance", "distance", 8, lambda r: [(f"{r.distance:.2f}", "")], right=True, keep=6),
        Column("doubt", "doubt", 5, doubt, right=True, keep=7),
        Column("other", "nearest other group", 24, lambda r: [(one_line(r.other), "tone--muted")], keep=4),
    ]  # fmt: skip


def clustering_line(row: ClusteringSummary) -> str:
    """Returns a clustering as a line of a choice: its title, when and how it was made, and its number of groups."""
    clustering = row.clustering
    facts = (
        clustering.title,
        date_and_minute(clustering.created_at),
        clustering.text,
        clustering.embedder,
        f"k {clustering.k}",
        f"seed {clustering.seed}",
        number_format.counted(row.groups, "group"),
    )
    return one_line(" · ".join(facts))


def summary_content(
    shown: ClusteringSummary,
    groups: Sequence[GoalGroup],
    *,
    other_titles: Sequence[str] = (),
    filtered: bool = False,
) -> Content:
    """Returns the line above the list: the number of groups, of unstable ones, and of conversations in no group.

    Args:
        other_titles: Titles of the other clusterings that can be opened.
        filtered: Whether a filter leaves conversations out; then it tells how many are in the groups instead.
    """
    clustering = shown.clustering
    count = sum(group.size for group in groups) if filtered else clustering.conversations
    subject = subject_of_reasons(clustering.text)
    parts: list[Content | tuple[str, str] | str] = [
        (number_format.counted(len(groups), clustering.noun), "bold"),
        f" for “{one_line(subject)}”" if subject else "",
        f" of {number_format.counted(count, 'conversation')}",
    ]
    if filtered:
        where = f" that match and are in a {clustering.noun}"
        return Content.assemble(*parts, (where, "$tone-muted"))
    outside = [
        text
        for number, text in (
            (shown.outliers, number_format.counted(shown.outliers, "outlier")),
            (shown.novel, f"{shown.novel:,} assigned to no group"),
            (clustering.without, f"{clustering.without:,} without a text"),
        )
        if number
    ]
    if outside:
        parts.append((" · " + " · ".join(outside), "$tone-muted"))
    stabilities = [group.stability for group in groups if group.stability is not None]
    if stabilities:
        unstable = sum(value < UNSTABLE for value in stabilities)
        parts.append(
            (f" · {UNSTABLE_SIGN} {unstable:,} unstable", "$tone-borderline")
            if unstable
            else (" · all stable", "$tone-muted")
        )
    if any(0 < group.with_outcome < group.size for group in groups):
        parts.append((" · failed: of those known, not of all", "$tone-muted"))
    if other_titles:
        parts.append((f" · beside: {one_line(', '.join(other_titles))}", "$tone-muted"))
    return Content.assemble(*parts)
