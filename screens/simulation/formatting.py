"""Texts and columns of the simulation screens. Without widgets.

A play is one simulated conversation, made of calls of a model; plays of the same setting are a set. Widths and lengths
are in characters or terminal cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from engine.base.report_table import ReportTable
from engine.base.text import as_json, one_line
from engine.simulate.records import PlayItem, PlaySetting, TranscriptLine
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import fitting
from screens.widgets.row_table import Column, Piece

MAX_NAME_CHARS = 60
"""Most characters of the key of a running play."""

_MAX_LABEL_CHARS = 40
"""Most characters of the name of a model or of a source."""

_MAX_ROLE_CHARS = 12
"""Most characters of the name of a role."""

_MAX_NOTE_CHARS = 400
"""Most characters of the note below a table."""


class PlacedCall(NamedTuple):
    """A call of a play.

    Attributes:
        place: Its place in the play, from 0.
        line: The call with its reply.
    """

    place: int
    line: TranscriptLine


KIND_NAMES = {
    "sharded": "sharded conversations",
    "forms": "forms",
    "recsim": "users with profiles",
}
"""How the dialog names each kind."""

ROLE_TONES = {"user": "accent", "assistant": "bright", "judge": "muted"}
"""The tone of each role."""


def play_columns() -> list[Column[PlayItem]]:
    """Returns the columns of the list of plays."""

    def sign(item: PlayItem) -> Sequence[Piece]:
        """Returns the sign of a play: broken off, with a conversation, or without one."""
        if item.reason is not None:
            return [("✗", "tone--incomplete")]
        return [("●", "tone--accent") if item.conversation_id is not None else ("·", "tone--muted")]

    def result(item: PlayItem) -> Sequence[Piece]:
        """Returns the result of a play, or why it broke off."""
        if item.reason is not None:
            return [(f"broke off: {one_line(item.reason)}", "tone--incomplete")]
        return [(one_line(item.summary), "tone--muted")]

    return [
        Column("sign", "", 1, sign),
        Column("play", "play", 38, lambda item: [(one_line(item.name), "")], keep=8),
        Column("result", "what came of it", 24, result, flexible=True),
    ]


def call_columns() -> list[Column[PlacedCall]]:
    """Returns the columns of the calls of a play."""

    def role(call: PlacedCall) -> Sequence[Piece]:
        """Returns the role of the model that answered, in its tone."""
        name = call.line.role
        return [(name, f"tone--{ROLE_TONES.get(name, 'muted')}")]

    def reply(call: PlacedCall) -> Sequence[Piece]:
        """Returns the reply, and whether it was cut."""
        line = call.line
        pieces = [(one_line(line.opening + line.text) or "(nothing)", "")]
        if line.stopped == "length":
            pieces.append((" … cut at the limit", "tone--borderline"))
        return pieces

    return [
        Column("nr", "", 4, lambda call: [(str(call.place + 1), "tone--muted")], right=True),
        Column("module", "module", 20, lambda call: [(one_line(call.line.module), "")]),
        Column("role", "role", 9, role, keep=3),
        Column("reply", "reply", 20, reply, flexible=True),
    ]


# Sets and tables


def set_line(
    sets: Sequence[PlaySetting], index: int, table: ReportTable | None, page: str, cells: int
) -> Content:
    """Returns which set of how many this is, what plays in it, and which table is shown; of the models and parameters
    what fits into so many cells.

    Args:
        page: Which table of how many this is, such as "(1 of 3)"; "" for a single one.
    """
    setting = sets[index]
    counts = f"{setting.played:,} played"
    if setting.broken:
        counts += f", {setting.broken:,} broke off"
    title = "" if table is None else f"{table.title} {page}"
    line = Content.assemble(
        (f"set {index + 1} of {len(sets)} ", "$tone-accent"),
        (one_line(setting.source, _MAX_LABEL_CHARS), "bold"),
        f" · {counts}",
        (f" · {title}" if title else "", "$tone-accent"),
    )
    details = fitting(
        [format_models(setting), *setting.summary.split(" · ")], cells - line.cell_length - 5
    )
    return Content.assemble(line, (f" · {details}", "$tone-muted"))


def format_models(setting: PlaySetting) -> str:
    """Returns who plays: one name where all roles have the same model, else each role's."""
    labels = set(setting.models.values())
    if len(labels) == 1:
        return one_line(labels.pop(), _MAX_LABEL_CHARS)
    return ", ".join(
        f"{one_line(role, _MAX_ROLE_CHARS)}: {one_line(label, _MAX_LABEL_CHARS)}"
        for role, label in setting.models.items()
    )


def reading_note(table: ReportTable, by: int | None) -> Content:
    """Returns how to read a table: the meaning of the column that it is sorted by, and the notes of the table.

    Args:
        by: Index of the column; None for the table's own order.
    """
    parts = [] if by is None else [f"{table.columns[by].title}: {table.columns[by].description}"]
    text = one_line(" ".join([*parts, *table.notes]), _MAX_NOTE_CHARS)
    return Content.styled(text, "$tone-muted")


NOTHING_PLAYED = EmptyState(
    message="Nothing has been simulated in this project.\n\n"
    "Models play conversations whose outcome is known,\nso that scores can be checked against it.",
    enter_label="chooses what to play, and says first what it costs",
    action="new",
    needs_no_conversations=True,
)
"""What to do when nothing was played yet."""


def call_text(line: TranscriptLine) -> str:
    """Returns a call with its reply, as one text."""
    title = f"{line.role} · {line.module} · seed {line.seed}"
    sampling = {name: value for name, value in line.sampling.items() if name != "json_schema"}
    if sampling:
        title += f" · {as_json(sampling)}"
    parts = [title]
    parts += [f"── {speaker}\n{content}" for speaker, content in line.messages]
    if "json_schema" in line.sampling:
        parts.append(f"── the reply must follow\n{line.sampling['json_schema']}")
    if line.note:
        parts.append(f"── not seen by the model\n{line.note}")
    ended = {"end": "", "stop": " (stopped)", "length": " (cut at the limit)"}[line.stopped]
    parts.append(f"── reply{ended}\n{line.opening}{line.text}")
    return "\n\n".join(parts)
