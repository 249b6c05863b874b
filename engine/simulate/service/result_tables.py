"""Tables of the results of a set of plays, with the columns of the source papers: Laban et al. (2025) for sharded
conversations, Hakimov et al. (2024) for forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.base.number_format import counted, figure
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.completeness.turns import by_turns
from engine.formats.form_scores import FormScores
from engine.results.metrics.aptitude import Aptitude, aptitudes
from engine.results.table_rendering import UNKNOWN
from engine.simulate.draft import as_draft
from engine.simulate.forms.table import FormRow, ModelRow, by_model, by_module, table_of
from engine.simulate.records import PlayItem, PlayRow
from engine.simulate.recsim.play import by_task
from engine.simulate.service.sharded import replies_by_condition, scored
from engine.simulate.sharded.scenario import ALL_CONDITIONS, CATEGORIES, ONE_TURN, place_of

_LONGEST_NAME = 80
_DIGEST = re.compile(r"@[0-9a-f]{8}(?=/)")
"""Part of a key that distinguishes instructions with the same id; not shown."""


def tables_of(kind: str, rows: Sequence[PlayRow]) -> tuple[ReportTable, ...]:
    """The tables of plays of one setting; plays that broke off are in none of them."""
    ended = [row for row in rows if row.reason is None]
    make = _TABLES.get(kind)
    return tuple(make(ended)) if make is not None and ended else ()


def item_of(row: PlayRow) -> PlayItem:
    """A row of the list of plays."""
    name = _DIGEST.sub("", row.key.partition("/")[2] or row.key)
    summarise = _SUMMARIES.get(row.kind)
    summary = summarise(row.result) if summarise is not None and row.reason is None else ""
    return PlayItem(row.id, name, row.conversation_id, summary, row.reason)


# Sharded conversations

_OF_FULL, _A_OF_FULL, _U_OF_FULL = (
    ReportColumn(title, "percent", means=f"{figure} as a share of that of the condition FULL.")
    for title, figure in (("of FULL", "P"), ("A of FULL", "A90"), ("U of FULL", "U90-10"))
)
_APTITUDE = (
    ReportColumn("runs", "count", means="Conversations, all instructions together."),
    ReportColumn("P", "number", means="Averaged performance: the mean score, 0 to 100."),
    _OF_FULL,
    ReportColumn(
        "A90", "number", means="Aptitude: the 90th percentile of an instruction's scores, averaged."
    ),
    ReportColumn(
        "U90-10", "number", means="Unreliability: the 90th less the 10th percentile, averaged."
    ),
    _A_OF_FULL,
    _U_OF_FULL,
)


def aptitude_table(found: Sequence[Aptitude]) -> ReportTable:
    """A row for each task, condition and model, named in the last column. Where the condition FULL was played, P, A90
    and U90-10 are also given as shares of its own, as Laban et al. tell them."""
    columns = (
        ReportColumn("instructions", "count"),
        *_APTITUDE,
        ReportColumn("task, condition, model", "text"),
    )
    full = _full(found)
    shares = (_OF_FULL, _A_OF_FULL, _U_OF_FULL)
    kept = [nth for nth, one in enumerate(columns) if full or one not in shares]
    rows = []
    for row in found:
        name = one_line(f"{row.task}, {row.condition}, {row.model}", _LONGEST_NAME)
        cells = (row.instructions, *_figures(row, full), name)
        rows.append(ReportRow(tuple(cells[nth] for nth in kept)))
    return ReportTable("by condition", tuple(columns[nth] for nth in kept), tuple(rows))


def _sharded(rows: Sequence[PlayRow]) -> list[ReportTable]:
    found = sorted(
        aptitudes(scored(rows)), key=lambda row: (row.task, place_of(row.condition, ALL_CONDITIONS))
    )
    full = _full(found)
    table = [
        _row(
            [row.condition, row.task, row.instructions, *_figures(row, full)],
            (
                one.id
                for one in rows
                if (one.result["task"], one.result["conv_type"]) == (row.task, row.condition)
            ),
        )
        for row in found
    ]
    head = (
        ReportColumn("condition", "text", means="How the instruction was given."),
        ReportColumn("task", "text", means="Kind of the instruction."),
    )
    many = ReportColumn("instr.", "count", means="Instructions.")
    once = any(row.fewest == 1 for row in found)
    notes = ("Where an instruction was played once, its reliability is not known.",) if once else ()
    return [
        ReportTable("by condition", (*head, many, *_APTITUDE), tuple(table), notes),
        _by_instruction(rows, head[0], notes),
        *_categories(rows),
    ]


def _by_instruction(
    rows: Sequence[PlayRow], condition: ReportColumn, notes: tuple[str, ...]
) -> ReportTable:
    each: dict[str, list[PlayRow]] = {}
    for one in rows:
        each.setdefault(one.result["task_id"], []).append(one)
    table: list[ReportRow] = []
    for task_id, some in each.items():
        found = sorted(
            aptitudes(scored(some)), key=lambda row: place_of(row.condition, ALL_CONDITIONS)
        )
        full = _full(found)
        table += [
            _row(
                [task_id, row.condition, *_figures(row, full)],
                (one.id for one in some if one.result["conv_type"] == row.condition),
            )
            for row in found
        ]
    head = ReportColumn("instruction", "text", means="Its id.")
    return ReportTable("by instruction", (head, condition, *_APTITUDE), tuple(table), notes)


def _categories(rows: Sequence[PlayRow]) -> list[ReportTable]:
    found = replies_by_condition(rows, ALL_CONDITIONS)
    if not found:
        return []
    names = ("turns", "stand_ins", *CATEGORIES)
    table = [
        _row(
            [one["condition"], *(one[name] for name in names)],
            (row.id for row in rows if row.result["condition"] == one["condition"]),
        )
        for one in found
    ]
    columns = (
        ReportColumn("condition", "text", means="How the instruction was given."),
        ReportColumn("turns", "count", means="Times that the user spoke."),
        ReportColumn(
            "stand-ins",
            "count",
            means="Shards sent verbatim because the simulated user gave no usable reply.",
        ),
        *(
            ReportColumn(name.replace("_", " "), "count", means="Replies of this kind.")
            for name in CATEGORIES
        ),
    )
    return [ReportTable("kinds of replies", columns, tuple(table))]


def aptitude_json(found: Sequence[Aptitude]) -> list[dict[str, Any]]:
    """The rows as JSON values; `of_full` has shares of the condition FULL, None where it was not played."""
    full = _full(found)
    return [asdict(row) | {"of_full": asdict(_shares(row, full))} for row in found]


@dataclass(frozen=True, slots=True)
class _Shares:
    """P, A90 and U90-10 of a condition as shares of those of FULL; None where these are 0 or not known."""

    performance: float | None
    aptitude: float | None
    unreliability: float | None


def _shares(row: Aptitude, full: Mapping[tuple[str, str], Aptitude]) -> _Shares:
    best = full.get((row.task, row.model))
    if best is None:
        return _Shares(None, None, None)
    known = row.fewest > 1 and best.fewest > 1
    return _Shares(
        row.performance / best.performance if best.performance else None,
        row.aptitude / best.aptitude if best.aptitude else None,
        row.unreliability / best.unreliability if known and best.unreliability else None,
    )


def _full(found: Iterable[Aptitude]) -> dict[tuple[str, str], Aptitude]:
    """The rows of the condition FULL by task and model."""
    return {
        (row.task, row.model): row for row in found if place_of(row.condition, ALL_CONDITIONS) == 0
    }


def _figures(row: Aptitude, full: Mapping[tuple[str, str], Aptitude]) -> list[Cell]:
    shares = _shares(row, full)
    return [
        row.runs,
        row.performance,
        shares.performance,
        row.aptitude,
        row.unreliability if row.fewest > 1 else None,
        shares.aptitude,
        shares.unreliability,
    ]


def _sharded_summary(result: Mapping[str, Any]) -> str:
    score = result["score"]
    text = "no attempt" if score is None else f"score {100 * score:.0f}"
    if result["condition"] in ONE_TURN:
        return text
    return f"{text} · {counted(result['turns'], 'turn')} · {result['revealed']} of {result['shards']} shards"


# Forms

_FORM_COLUMNS = (
    ReportColumn("form", "text", means="Which form."),
    ReportColumn("variant", "text", means="By modules, or by one prompt for all."),
    ReportColumn("runs", "count", means="How often it was filled."),
    ReportColumn("length", "count", means="Fields of the form."),
    ReportColumn("turns", "number", means="Questions that were answered, mean."),
    ReportColumn(
        "reps", "number", means="Questions that are letter for letter an earlier one, mean."
    ),
    ReportColumn("Filled", "share", means="Weighted share of the fields that are filled."),
    ReportColumn(
        "Success",
        "share",
        means="Weighted share of the fields that are filled correctly, where the answers are known.",
    ),
    ReportColumn("Efficiency", "share", means="1 at two fields a turn or more and no repetition."),
    ReportColumn("Filled score", "share", means="Harmonic mean of Filled and Efficiency."),
    ReportColumn("Score", "share", means="Harmonic mean of Success and Efficiency."),
)


def form_table(found: Iterable[FormRow]) -> ReportTable:
    """A row for each form and variant; the last columns have counts, and how the runs ended."""
    counts = [ReportColumn(title, "text") for title in ("complete", "right", "ended")]
    rows = []
    for row in found:
        right = UNKNOWN
        if row.right is not None:
            share = f" ({figure(row.right[0] / row.right[1])})" if row.right[1] else ""
            right = f"{row.right[0]:,} of {row.right[1]:,}{share}"
        ended = ", ".join(f"{reason} {count:,}" for reason, count in sorted(row.ended.items()))
        complete = f"{row.complete:,} of {row.runs:,}"
        rows.append(ReportRow((*_form_cells(row), complete, right, ended)))
    return ReportTable("forms", (*_FORM_COLUMNS, *counts), tuple(rows))


def _forms(rows: Sequence[PlayRow]) -> list[ReportTable]:
    columns = (
        *_FORM_COLUMNS,
        ReportColumn("complete", "count", means="Runs that filled all required fields."),
        ReportColumn(
            "right",
            "share",
            means="Share of the fields that are right, where the answers are known.",
        ),
        ReportColumn(
            "fallbacks", "share", means="Share of the modules' replies that a fallback gave."
        ),
    )
    table = []
    for row in table_of(one.result for one in rows):
        right = row.right[0] / row.right[1] if row.right and row.right[1] else None
        ids = (
            one.id
            for one in rows
            if (one.result["form"], one.result["variant"]) == (row.form, row.variant)
        )
        table.append(_row([*_form_cells(row), row.complete, right, row.fallbacks], ids))
    return [ReportTable("forms", columns, tuple(table)), _modules(rows)]


def _modules(rows: Sequence[PlayRow]) -> ReportTable:
    columns = (
        ReportColumn("module", "text", means="One prompt with one kind of reply."),
        ReportColumn("replies", "count", means="How often it was used, fallbacks included."),
        ReportColumn("asked again", "count", means="First replies that did not fit."),
        ReportColumn(
            "failed",
            "count",
            means="Times that no reply followed the instructions; a fallback replied.",
        ),
    )
    table = [
        _row([one.module, one.replies, one.again, one.failed], ())
        for one in by_module(row.result for row in rows)
    ]
    return ReportTable("modules", columns, tuple(table))


_MODEL_COLUMNS = (
    ReportColumn("model", "text", means="Model of the assistant."),
    ReportColumn("variant", "text", means="By modules, or by one prompt for all."),
    ReportColumn("form", "text", means="Which form; `all` is the mean over forms."),
    ReportColumn("runs", "count", means="How often it was filled."),
    ReportColumn(
        "failed", "count", means="Runs that ended because the instructions were not followed."
    ),
    ReportColumn("fields", "number", means="Fields of the form."),
    ReportColumn("turns", "number", means="Questions that were answered, mean."),
    *_FORM_COLUMNS[-5:],
)


def form_model_table(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> ReportTable:
    """Models by forms, as in Tables 1 and 2 of Hakimov et al., and the means over forms of their Figure 2.

    Args:
        runs: The model of the assistant, and the result of a run.
    """
    rows = [
        ReportRow(
            (
                one_line(one.model, _LONGEST_NAME), one.variant, one.form or "all", one.runs,
                one.failed, one.fields, one.turns, *_shares_of_form(one),
            )
        )
        for one in by_model(runs)
    ]  # fmt: skip
    note = (
        "Figures are of the runs that did not fail; without one they are unknown (× in the paper)."
    )
    return ReportTable("models by form", _MODEL_COLUMNS, tuple(rows), (note,))


def _form_cells(row: FormRow) -> list[Cell]:
    return [
        row.form, row.variant, row.runs, row.fields, row.turns, row.repetitions,
        *_shares_of_form(row),
    ]  # fmt: skip


def _shares_of_form(row: FormRow | ModelRow) -> list[Cell]:
    return [row.filled_share, row.success, row.efficiency, row.filled_score, row.score]


def _forms_summary(result: Mapping[str, Any]) -> str:
    required = "{} of {}".format(*result["required"])
    text = f"{FormScores.of(result).headline} · {counted(result['turns'], 'turn')} · required {required}"
    return f"{text} · ended by {result['ended']}"


# Users with profiles

_TASK_COLUMNS = (
    ReportColumn("task", "text", means="What is planned."),
    ReportColumn("conversations", "count", means="Conversations."),
    ReportColumn("turns", "number", means="Answers of the assistant, mean."),
    ReportColumn("goodbye", "count", means="Conversations that the user ended."),
    ReportColumn("user chars", "count", means="Characters of a message of the user, mean."),
    ReportColumn(
        "assistant chars", "count", means="Characters of a message of the assistant, mean."
    ),
    ReportColumn(
        "stand-ins", "count", means="Fixed messages that replaced empty replies of a model."
    ),
)


def task_table(rows: Sequence[PlayRow]) -> ReportTable:
    """A row for each task of the plays that ended."""
    found = [
        _row(
            [
                row.task, row.conversations, row.turns,
                row.goodbyes, round(row.user_chars),
                round(row.assistant_chars), row.stand_ins,
            ],
            (one.id for one in rows if one.result["task"] == row.task),
        )
        for row in by_task(one.result for one in rows)
    ]  # fmt: skip
    return ReportTable("by task", _TASK_COLUMNS, tuple(found))


def _recsim(rows: Sequence[PlayRow]) -> list[ReportTable]:
    turns = [
        _row(
            [row.turns, row.conversations, len(ended)],
            (one.id for one in rows if one.result["turns"] == row.turns),
        )
        for row in by_turns((one.result["turns"], None) for one in rows)
        for ended in [
            [o for o in rows if (o.result["turns"], o.result["ended"]) == (row.turns, "goodbye")]
        ]
    ]
    columns = (
        ReportColumn("turns", "count", means="Times that the user spoke."),
        ReportColumn("conversations", "count", means="Conversations of so many turns."),
        ReportColumn("goodbye", "count", means="Of these, ended by the user."),
    )
    note = "Ratings by turns: `workbench analyse turns`, for all conversations that have them."
    return [
        task_table(rows),
        ReportTable("by number of turns", columns, tuple(turns), (note,)),
    ]


def _recsim_summary(result: Mapping[str, Any]) -> str:
    ended = "goodbye" if result["ended"] == "goodbye" else "out of turns"
    return f"{counted(result['turns'], 'turn')} · {ended}"


# Shards

_SHARD_COLUMNS = (
    ReportColumn("instruction", "text", means="Its id."),
    ReportColumn("task", "text", means="Kind of the instruction."),
    ReportColumn("shards", "count", means="Shards that are proposed."),
    ReportColumn("as in the text", "count", means="Shards that are in the words of the text."),
    ReportColumn("lost", "count", means="Numbers and names that no shard contains."),
    ReportColumn("FULL", "number", means="Mean score of the full instruction, 0 to 100."),
    ReportColumn("CONCAT", "number", means="Mean score of the shards as a list, 0 to 100."),
)


def _shards(rows: Sequence[PlayRow]) -> list[ReportTable]:
    table = []
    for row in rows:
        draft = as_draft(row.result)
        check = draft.check
        cells: list[Cell] = [
            draft.task_id, draft.task, len(draft.candidates),
            sum(one.by == "text" for one in draft.candidates), len(draft.lost),
            100 * check["full"] if check else None,
            100 * check["concat"] if check else None,
        ]  # fmt: skip
        table.append(_row(cells, [row.id]))
    note = "They wait for a person: A shows them, to be approved."
    return [ReportTable("proposed shards", _SHARD_COLUMNS, tuple(table), (note,))]


def _shards_summary(result: Mapping[str, Any]) -> str:
    return counted(len(result["shards"]), "shard")


def _row(cells: Iterable[Cell], plays: Iterable[int]) -> ReportRow:
    return ReportRow(tuple(cells), plays=tuple(plays))


_TABLES: Mapping[str, Callable[[Sequence[PlayRow]], list[ReportTable]]] = {
    "sharded": _sharded,
    "forms": _forms,
    "recsim": _recsim,
    "shards": _shards,
}
_SUMMARIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "sharded": _sharded_summary,
    "forms": _forms_summary,
    "recsim": _recsim_summary,
    "shards": _shards_summary,
}
