"""Texts and columns of the simulation screens. Without widgets."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.statistics.intervals import Interval
from engine.base.text import as_json, one_line
from engine.simulate.records import LivePlay, PlayEstimate, PlayItem, PlaySetting, TranscriptLine
from screens.widgets.empty_state import EmptyState
from screens.widgets.row_table import Column, Piece, ordered_by

Called = tuple[int, TranscriptLine]
"""The place of a call in its play, and the call."""
MAX_NAME_CHARS = 60
"""Most characters of the key of a running play."""

KINDS = {
    "sharded": "sharded conversations",
    "forms": "forms",
    "recsim": "users with profiles",
    "shards": "proposed shards",
}
"""How the dialog names each kind."""

ROLE_TONES = {"user": "accent", "assistant": "bright", "judge": "muted"}
"""The tone of each role."""


def play_columns() -> list[Column[PlayItem]]:
    """Returns the columns of the list of plays."""

    def sign(item: PlayItem) -> Sequence[Piece]:
        if item.reason is not None:
            return [("✗", "tone--incomplete")]
        return [("●", "tone--accent") if item.conversation_id is not None else ("·", "tone--muted")]

    def result(item: PlayItem) -> Sequence[Piece]:
        if item.reason is not None:
            return [(f"broke off: {one_line(item.reason)}", "tone--incomplete")]
        return [(one_line(item.summary), "tone--muted")]

    return [
        Column("sign", "", 1, sign),
        Column("play", "play", 38, lambda item: [(one_line(item.name), "")], keep=8),
        Column("result", "what came of it", 24, result, flexible=True),
    ]


def call_columns() -> list[Column[Called]]:
    """Returns the columns of the calls of a play."""

    def role(called: Called) -> Sequence[Piece]:
        return [(called[1].role, f"tone--{ROLE_TONES.get(called[1].role, 'muted')}")]

    def reply(called: Called) -> Sequence[Piece]:
        line = called[1]
        pieces = [(one_line(line.opening + line.text) or "(nothing)", "")]
        if line.stopped == "length":
            pieces.append((" … cut at the limit", "tone--borderline"))
        return pieces

    return [
        Column("nr", "", 4, lambda called: [(str(called[0] + 1), "tone--muted")], right=True),
        Column("module", "module", 20, lambda called: [(one_line(called[1].module), "")]),
        Column("role", "role", 9, role, keep=3),
        Column("reply", "reply", 20, reply, flexible=True),
    ]


# Sets and tables


def summary(
    sets: Sequence[PlaySetting], index: int, table: ReportTable | None, page: str
) -> Content:
    """Returns which set of how many this is, what plays in it, and which table is shown."""
    played = sets[index]
    counts = f"{played.played:,} played"
    if played.broken:
        counts += f", {played.broken:,} broke off"
    title = "" if table is None else f"{table.title} {page}"
    return Content.assemble(
        (f"set {index + 1} of {len(sets)} ", "$tone-accent"),
        (one_line(played.source, 40), "bold"),
        f" · {counts}",
        (f" · {title}" if title else "", "$tone-accent"),
        (f" · {format_models(played)}", "$tone-muted"),
        (f" · {one_line(played.summary, 80)}" if played.summary else "", "$tone-muted"),
    )


def format_models(played: PlaySetting) -> str:
    """Returns who plays: one name where all roles have the same model, else each role's."""
    labels = set(played.models.values())
    if len(labels) == 1:
        return one_line(labels.pop(), 40)
    return ", ".join(
        f"{one_line(role, 12)}: {one_line(label, 40)}" for role, label in played.models.items()
    )


def sorted_rows(rows: Sequence[ReportRow], by: int | None, descending: bool) -> list[ReportRow]:
    """Returns the rows by a column, those without a value last; in their own order for None."""
    if by is None:
        return list(rows)
    return ordered_by(rows, lambda row: _sort_key(row.cells[by]), descending=descending)


def _sort_key(cell: Cell) -> float | str | None:
    """Returns what a cell is compared by with the others of its column, which are all numbers or all texts."""
    return cell.value if isinstance(cell, Interval) else cell


def note(table: ReportTable, by: int | None) -> Content:
    """Returns how to read a table: the meaning of the column that it is sorted by, and the notes of the table."""
    parts = [] if by is None else [f"{table.columns[by].title}: {table.columns[by].description}"]
    return Content.styled(one_line(" ".join([*parts, *table.notes]), 400), "$tone-muted")


def column_content(column: ReportColumn) -> Content:
    """Returns a column to choose: its name, and what it holds."""
    name = f"{one_line(column.title, 16):<17}"
    return Content.assemble((name, "bold"), (one_line(column.description, 80), "$tone-muted"))


NOTHING_PLAYED = EmptyState(
    "Nothing has been simulated in this project.\n\n"
    "Models play conversations whose outcome is known,\nso that scores can be checked against it.",
    "chooses what to play, and says first what it costs",
    "new",
    others=(
        ("simulation.form", "lets you answer a form yourself and watch the modules"),
        ("simulation.shards", "shows proposed shards, for you to approve"),
    ),
    needs_no_conversations=True,
)
"""What to do when nothing was played yet."""


# Cost


def estimate_content(estimate: PlayEstimate) -> Content:
    """Returns an estimate in words."""
    if not estimate.plays:
        return Content("All of this has been played; there is nothing to do.")
    facts = [f"{estimate.plays:,} to play"]
    if estimate.replies is None or estimate.seconds is None:
        facts.append("how long it takes is known once the first is over")
    else:
        replies = f"about {estimate.replies:,} replies"
        facts.append(f"{replies}, {number_format.duration(estimate.seconds)}, as the last time")
    models = ", ".join(one_line(label, 40) for label in estimate.models)
    return Content.assemble(" · ".join(facts), "\nwith ", (models, "bold"))


# Live replies


def live_content(plays: Sequence[LivePlay], lines: int, width: int) -> Content:
    """Returns the newest replies of the newest plays, as many as there is room for; the newest play has half of it."""
    if not plays:
        return Content.styled(
            "No reply yet. Replies of the running simulations appear here, each once it is complete.",
            "$tone-muted",
        )
    parts: list[Content] = []
    lines_left = lines
    for nth, play in enumerate(plays):
        share = max(
            2, lines // 2 if nth == 0 and len(plays) > 1 else 4 if len(plays) > 1 else lines
        )
        take = min(share - 1, lines_left - 1, len(play.lines))
        if take < 1:
            break
        head = number_format.counted(play.replies, "call")
        parts.append(
            Content.assemble(
                (one_line(play.key, MAX_NAME_CHARS), "bold"), (f"  {head}", "$tone-muted")
            )
        )
        parts += [
            line_content(line.module, line.role, line.text, width) for line in play.lines[-take:]
        ]
        lines_left -= take + 1
    return Content("\n").join(parts)


def line_content(module: str, role: str, text: str, width: int) -> Content:
    """Returns a reply on one line: its module and its text."""
    tone = f"$tone-{ROLE_TONES.get(role, 'muted')}"
    name = f"{one_line(module, 22):<22} "
    return Content.assemble((name, tone), one_line(text, 600) or "(nothing)").truncate(
        max(8, width), ellipsis=True
    )


def call_text(line: TranscriptLine) -> str:
    """Returns a call with its reply, as one text."""
    parts = [f"{line.role} · {line.module} · seed {line.seed}"]
    how = {name: value for name, value in line.sampling.items() if name != "json_schema"}
    if how:
        parts[0] += f" · {as_json(how)}"
    parts += [f"── {speaker}\n{content}" for speaker, content in line.messages]
    if "json_schema" in line.sampling:
        parts.append(f"── the reply must follow\n{line.sampling['json_schema']}")
    if line.note:
        parts.append(f"── not seen by the model\n{line.note}")
    ended = {"end": "", "stop": " (stopped)", "length": " (cut at the limit)"}[line.stopped]
    parts.append(f"── reply{ended}\n{line.opening}{line.text}")
    return "\n\n".join(parts)
