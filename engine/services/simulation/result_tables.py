"""What came of the plays of a set, as tables with the columns of the source papers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.number_format import counted, figure
from engine.records.simulation import PlayRow
from engine.services.simulation.records import PlayItem, ResultRow, ResultSheet, SheetColumn
from engine.services.simulation.sharded import replies_by_condition, scored
from engine.simulate.forms.table import table_of
from engine.simulate.recsim.table import by_task
from engine.simulate.sharded.log import CATEGORIES
from engine.simulate.sharded.making.draft import as_draft
from engine.simulate.sharded.scenario import ALL_CONDITIONS, ONE_TURN
from engine.validate.aptitude import Aptitude, aptitudes
from engine.validate.turns import by_turns

Cell = tuple[str, float | str | None]
"""As it is shown, and what it is sorted by."""
_DIGEST = re.compile(r"@[0-9a-f]{8}(?=/)")
"""In keys, for instructions of one id; of no use to a reader."""
_NONE: Cell = ("–", None)


def sheets_of(kind: str, rows: Sequence[PlayRow]) -> tuple[ResultSheet, ...]:
    """The tables of plays of one setting; those that broke off are in none of them."""
    over = [row for row in rows if row.reason is None]
    made = _SHEETS.get(kind)
    return tuple(made(over)) if made is not None and over else ()


def item_of(row: PlayRow) -> PlayItem:
    """A play for the list of plays."""
    name = _DIGEST.sub("", row.key.partition("/")[2] or row.key)
    teller = _TOLD.get(row.kind)
    told = teller(row.result) if teller is not None and row.reason is None else ""
    return PlayItem(row.id, name, row.conversation_id, told, row.reason)


# Sharded conversations

_APTITUDE = (
    SheetColumn("runs", "Conversations, all instructions together."),
    SheetColumn("P", "Averaged performance: the mean score, 0 to 100."),
    SheetColumn("of FULL", "P as a share of that of the condition FULL."),
    SheetColumn("A90", "Aptitude: the 90th percentile of an instruction's scores, averaged."),
    SheetColumn("U90-10", "Unreliability: the 90th less the 10th percentile, averaged."),
)


def _sharded(rows: Sequence[PlayRow]) -> list[ResultSheet]:
    found = sorted(aptitudes(scored(rows)), key=lambda row: (row.task, _place(row.condition)))
    full = {row.task: row.performance for row in found if _place(row.condition) == 0}
    table = [
        _row(
            [
                _text(row.condition),
                _text(row.task),
                _count(row.instructions),
                *_figures(row, full.get(row.task)),
            ],
            (
                one.id
                for one in rows
                if (one.result["task"], one.result["conv_type"]) == (row.task, row.condition)
            ),
        )
        for row in found
    ]
    head = (
        SheetColumn("condition", "How the instruction was given.", figure=False),
        SheetColumn("task", "Kind of the instruction.", figure=False),
    )
    many = SheetColumn("instr.", "Instructions.")
    once = any(row.fewest == 1 for row in found)
    said = "Where an instruction was played once, its reliability is not known." if once else ""
    return [
        ResultSheet("by condition", (*head, many, *_APTITUDE), tuple(table), said),
        _by_instruction(rows, head[0], said),
        *_categories(rows),
    ]


def _by_instruction(rows: Sequence[PlayRow], condition: SheetColumn, said: str) -> ResultSheet:
    each: dict[str, list[PlayRow]] = {}
    for one in rows:
        each.setdefault(one.result["task_id"], []).append(one)
    table: list[ResultRow] = []
    for task_id, some in each.items():
        found = sorted(aptitudes(scored(some)), key=lambda row: _place(row.condition))
        full = next((row.performance for row in found if _place(row.condition) == 0), None)
        table += [
            _row(
                [_text(task_id), _text(row.condition), *_figures(row, full)],
                (one.id for one in some if one.result["conv_type"] == row.condition),
            )
            for row in found
        ]
    head = SheetColumn("instruction", "Its id.", figure=False)
    return ResultSheet("by instruction", (head, condition, *_APTITUDE), tuple(table), said)


def _categories(rows: Sequence[PlayRow]) -> list[ResultSheet]:
    found = replies_by_condition(rows, ALL_CONDITIONS)
    if not found:
        return []
    names = ("turns", "stand_ins", *CATEGORIES)
    table = [
        _row(
            [_text(one["condition"]), *(_count(one[name]) for name in names)],
            (row.id for row in rows if row.result["condition"] == one["condition"]),
        )
        for one in found
    ]
    columns = (
        SheetColumn("condition", "How the instruction was given.", figure=False),
        SheetColumn("turns", "Times that the user spoke."),
        SheetColumn("stand-ins", "Shards said as they stand, for a user who said nothing of use."),
        *(SheetColumn(name.replace("_", " "), "Replies of this kind.") for name in CATEGORIES),
    )
    return [ResultSheet("kinds of replies", columns, tuple(table))]


def _figures(row: Aptitude, full: float | None) -> list[Cell]:
    share = row.performance / full if full else None
    return [
        _count(row.runs),
        _number(row.performance),
        _NONE if share is None else (f"{100 * share:.0f}%", share),
        _number(row.aptitude),
        _number(row.unreliability) if row.fewest > 1 else _NONE,
    ]


def _place(conv_type: str) -> int:
    """Where a condition stands in the paper's table, whatever the temperatures behind its name."""
    name = conv_type
    while name not in ALL_CONDITIONS and "-" in name:
        name = name.rpartition("-")[0]
    return next((at for at, one in enumerate(ALL_CONDITIONS) if one == name), len(ALL_CONDITIONS))


def _told_sharded(result: Mapping[str, Any]) -> str:
    score = result["score"]
    told = "no attempt" if score is None else f"score {100 * score:.0f}"
    if result["condition"] in ONE_TURN:
        return told
    return f"{told} · {counted(result['turns'], 'turn')} · {result['revealed']} of {result['shards']} shards"


# Forms

_FORM_COLUMNS = (
    SheetColumn("form", "Which form.", figure=False),
    SheetColumn("variant", "By modules, or by one prompt for all.", figure=False),
    SheetColumn("runs", "How often it was filled."),
    SheetColumn("length", "Fields of the form."),
    SheetColumn("turns", "Questions that were answered, mean."),
    SheetColumn("reps", "Questions that are letter for letter an earlier one, mean."),
    SheetColumn("Success", "Weighted share of the fields that are filled."),
    SheetColumn("Efficiency", "1 at two fields a turn or more and no repetition."),
    SheetColumn("Score", "Harmonic mean of Success and Efficiency."),
    SheetColumn("complete", "Runs that filled all required fields."),
    SheetColumn("right", "Share of the fields that are right, where the answers are known."),
    SheetColumn("fallbacks", "Share of the modules' replies that a fallback gave."),
)


def _forms(rows: Sequence[PlayRow]) -> list[ResultSheet]:
    table = []
    for row in table_of(one.result for one in rows):
        right = _NONE
        if row.right is not None and row.right[1]:
            right = _share(row.right[0] / row.right[1])
        cells = [
            _text(row.form), _text(row.variant), _count(row.runs), _count(row.fields),
            _number(row.turns), _number(row.repetitions), _share(row.success),
            _share(row.efficiency), _share(row.score), _count(row.complete), right,
            _share(row.fallbacks),
        ]  # fmt: skip
        ids = (
            one.id
            for one in rows
            if (one.result["form"], one.result["variant"]) == (row.form, row.variant)
        )
        table.append(_row(cells, ids))
    return [ResultSheet("forms", _FORM_COLUMNS, tuple(table))]


def _told_forms(result: Mapping[str, Any]) -> str:
    required = "{} of {}".format(*result["required"])
    told = f"Score {figure(result['score'])} · {counted(result['turns'], 'turn')} · required {required}"
    return f"{told} · ended by {result['ended']}"


# Users with profiles

_TASK_COLUMNS = (
    SheetColumn("task", "What is planned.", figure=False),
    SheetColumn("conversations", "Conversations."),
    SheetColumn("turns", "Answers of the assistant, mean."),
    SheetColumn("goodbye", "Conversations that the user ended."),
    SheetColumn("user chars", "Characters of a message of the user, mean."),
    SheetColumn("assistant chars", "Characters of a message of the assistant, mean."),
    SheetColumn("stand-ins", "Messages said for a model that said nothing."),
)


def _recsim(rows: Sequence[PlayRow]) -> list[ResultSheet]:
    by_tasks = [
        _row(
            [
                _text(row.task), _count(row.conversations), _number(row.turns),
                _count(row.goodbyes), _count(round(row.user_chars)),
                _count(round(row.assistant_chars)), _count(row.stand_ins),
            ],
            (one.id for one in rows if one.result["task"] == row.task),
        )
        for row in by_task(one.result for one in rows)
    ]  # fmt: skip
    turns = [
        _row(
            [_count(row.turns), _count(row.conversations), _count(len(ended))],
            (one.id for one in rows if one.result["turns"] == row.turns),
        )
        for row in by_turns((one.result["turns"], None) for one in rows)
        for ended in [
            [o for o in rows if (o.result["turns"], o.result["ended"]) == (row.turns, "goodbye")]
        ]
    ]
    columns = (
        SheetColumn("turns", "Times that the user spoke."),
        SheetColumn("conversations", "Conversations of so many turns."),
        SheetColumn("goodbye", "Of these, ended by the user."),
    )
    said = "Ratings by turns: `workbench analyse turns`, for all conversations that have them."
    return [
        ResultSheet("by task", _TASK_COLUMNS, tuple(by_tasks)),
        ResultSheet("by number of turns", columns, tuple(turns), said),
    ]


def _told_recsim(result: Mapping[str, Any]) -> str:
    ended = "goodbye" if result["ended"] == "goodbye" else "out of turns"
    return f"{counted(result['turns'], 'turn')} · {ended}"


# Shards

_SHARD_COLUMNS = (
    SheetColumn("instruction", "Its id.", figure=False),
    SheetColumn("task", "Kind of the instruction.", figure=False),
    SheetColumn("shards", "Shards that are proposed."),
    SheetColumn("as in the text", "Shards that are not worded anew."),
    SheetColumn("lost", "Numbers and names that no shard says."),
    SheetColumn("FULL", "Mean score of the full instruction, 0 to 100."),
    SheetColumn("CONCAT", "Mean score of the shards as a list, 0 to 100."),
)


def _shards(rows: Sequence[PlayRow]) -> list[ResultSheet]:
    table = []
    for row in rows:
        draft = as_draft(row.result)
        check = draft.check
        cells = [
            _text(draft.task_id), _text(draft.task), _count(len(draft.candidates)),
            _count(sum(one.by == "text" for one in draft.candidates)), _count(len(draft.lost)),
            _number(100 * check["full"]) if check else _NONE,
            _number(100 * check["concat"]) if check else _NONE,
        ]  # fmt: skip
        table.append(_row(cells, [row.id]))
    said = "They wait for a person: A shows them, to be approved."
    return [ResultSheet("proposed shards", _SHARD_COLUMNS, tuple(table), said)]


def _told_shards(result: Mapping[str, Any]) -> str:
    return counted(len(result["shards"]), "shard")


# Cells


def _row(cells: Sequence[Cell], plays: Iterable[int]) -> ResultRow:
    return ResultRow(
        tuple(shown for shown, _ in cells), tuple(value for _, value in cells), tuple(plays)
    )


def _text(text: str) -> Cell:
    return text, text


def _count(number: int) -> Cell:
    return f"{number:,}", float(number)


def _number(number: float) -> Cell:
    return f"{number:.1f}", number


def _share(share: float) -> Cell:
    return figure(share), share


_SHEETS: Mapping[str, Callable[[Sequence[PlayRow]], list[ResultSheet]]] = {
    "sharded": _sharded,
    "forms": _forms,
    "recsim": _recsim,
    "shards": _shards,
}
_TOLD: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "sharded": _told_sharded,
    "forms": _told_forms,
    "recsim": _told_recsim,
    "shards": _told_shards,
}
