"""Tables of the results of a set of plays, with the columns of the source papers: Laban et al. (2025) for sharded
conversations, Hakimov et al. (2024) for forms.

A play is one simulated conversation; a shard is a piece of an instruction, and the condition says how the shards are
given: FULL gives the instruction as it is, and other conditions are compared with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.simulate.forms.form_scores import FormScores
from engine.simulate.forms.table import FilledForm, by_module, form_rows
from engine.simulate.records import PlayItem, PlayRow
from engine.simulate.recsim.play import by_task
from engine.simulate.service.sharded import replies_by_condition, scored
from engine.simulate.sharded.aptitude import Aptitude, aptitudes
from engine.simulate.sharded.scenario import ALL_CONDITIONS, CATEGORIES, ONE_TURN, place_of

_MAX_NAME_CHARS = 80
"""Most characters of the name of a row."""

_DIGEST = re.compile(r"@[0-9a-f]{8}(?=/)")
"""Part of a key that distinguishes instructions with the same id; not shown."""


_CONDITION_COLUMN = ReportColumn("condition", "text", description="How the instruction was given.")
"""The column of the condition."""

_SCORE_COLUMNS = (
    ReportColumn("Filled", "share", description="Weighted share of the fields that are filled."),
    ReportColumn(
        "Success",
        "share",
        description="Weighted share of the fields that are filled correctly, where the answers are known.",
    ),
    ReportColumn(
        "Efficiency", "share", description="1 at two fields a turn or more and no repetition."
    ),
    ReportColumn("Filled score", "share", description="Harmonic mean of Filled and Efficiency."),
    ReportColumn("Score", "share", description="Harmonic mean of Success and Efficiency."),
)
"""The columns of the scores of a filled form."""

_FORM_COLUMNS = (
    ReportColumn("model", "text", description="Model of the assistant."),
    ReportColumn("variant", "text", description="By modules, or by one prompt for all."),
    ReportColumn("form", "text", description="Which form; `all` is the mean over forms."),
    ReportColumn("runs", "count", description="How often it was filled."),
    ReportColumn("complete", "count", description="Runs that filled all required fields."),
    ReportColumn(
        "failed", "count", description="Runs that ended because the instructions were not followed."
    ),
    ReportColumn("fields", "number", description="Fields of the form."),
    ReportColumn("turns", "number", description="Questions that were answered, mean."),
    ReportColumn(
        "reps", "number", description="Questions that are letter for letter an earlier one, mean."
    ),
    *_SCORE_COLUMNS,
)
"""Columns of the table of models by form."""

_TASK_COLUMNS = (
    ReportColumn("task", "text", description="What is planned."),
    ReportColumn("conversations", "count", description="Conversations."),
    ReportColumn("turns", "number", description="Answers of the assistant, mean."),
    ReportColumn("goodbye", "count", description="Conversations that the user ended."),
    ReportColumn("user chars", "count", description="Characters of a message of the user, mean."),
    ReportColumn(
        "assistant chars", "count", description="Characters of a message of the assistant, mean."
    ),
    ReportColumn(
        "stand-ins", "count", description="Fixed messages that replaced empty replies of a model."
    ),
)
"""Columns of the table of tasks."""


def tables_of(kind: str, rows: Sequence[PlayRow]) -> tuple[ReportTable, ...]:
    """Returns the tables of plays of one setting; plays that broke off are in none of them."""
    ended = [row for row in rows if row.reason is None]
    make = _TABLES.get(kind)
    return tuple(make(ended)) if make is not None and ended else ()


def item_of(row: PlayRow) -> PlayItem:
    """Returns a row of the list of plays."""
    name = _DIGEST.sub("", row.key.partition("/")[2] or row.key)
    summarize = _SUMMARIES.get(row.kind)
    summary = summarize(row.result) if summarize is not None and row.reason is None else ""
    return PlayItem(row.id, name, row.conversation_id, summary, row.reason)


def _row(cells: Iterable[Cell], plays: Sequence[PlayRow], **results: Any) -> ReportRow:
    """Returns a row with the ids of the plays that it counts.

    Args:
        results: Keys of `PlayRow.result`, with the values that a play must have to be listed behind this row.
    """
    play_ids = (
        play.id
        for play in plays
        if all(play.result[key] == value for key, value in results.items())
    )
    return ReportRow(tuple(cells), plays=tuple(play_ids))


# Sharded conversations


def _column_of_full(title: str, compared: str) -> ReportColumn:
    """Returns the column that gives a figure as a share of that of FULL."""
    return ReportColumn(
        title, "percent", description=f"{compared} as a share of that of the condition FULL."
    )


_P_OF_FULL = _column_of_full("of FULL", "P")
"""Performance compared with FULL."""

_A_OF_FULL = _column_of_full("A of FULL", "A90")
"""Aptitude compared with FULL."""

_U_OF_FULL = _column_of_full("U of FULL", "U90-10")
"""Unreliability compared with FULL."""

_APTITUDE_COLUMNS = (
    ReportColumn("runs", "count", description="Conversations, all instructions together."),
    ReportColumn("P", "number", description="Averaged performance: the mean score, 0 to 100."),
    _P_OF_FULL,
    ReportColumn(
        "A90",
        "number",
        description="Aptitude: the 90th percentile of an instruction's scores, averaged.",
    ),
    ReportColumn(
        "U90-10",
        "number",
        description="Unreliability: the 90th less the 10th percentile, averaged.",
    ),
    _A_OF_FULL,
    _U_OF_FULL,
)
"""The columns of performance, aptitude and unreliability, in the order of `_aptitude_cells`."""


def aptitude_table(rows: Sequence[Aptitude], plays: Sequence[PlayRow] = ()) -> ReportTable:
    """Returns a row for each task, condition and model; the model is named where there are several. P, A90 and U90-10
    are also given as shares of those of the condition FULL, as Laban et al. tell them.

    Args:
        plays: Listed behind the rows. Their `conv_type` is the condition: with the number of merged shards and
            temperatures.
    """
    full_rows = _full_by_task_and_model(rows)
    has_models = len({row.model for row in rows}) > 1
    table = []
    for row in rows:
        cells: list[Cell] = [row.condition, one_line(row.task, _MAX_NAME_CHARS)]
        cells += [one_line(row.model, _MAX_NAME_CHARS)] if has_models else []
        cells += [row.instructions, *_aptitude_cells(row, full_rows)]
        table.append(_row(cells, plays, task=row.task, conv_type=row.condition, model=row.model))
    columns = (
        _CONDITION_COLUMN,
        ReportColumn("task", "text", description="Kind of the instruction."),
        *([ReportColumn("model", "text", description="Of the assistant.")] if has_models else []),
        ReportColumn("instr.", "count", description="Instructions."),
        *_APTITUDE_COLUMNS,
    )
    # `fewest` is the least number of runs of one instruction; one run alone says nothing of the spread of its scores.
    is_played_once = any(row.fewest == 1 for row in rows)
    notes = ("Where an instruction was played once, its reliability is not known.",)
    return ReportTable("by condition", columns, tuple(table), notes if is_played_once else ())


def _sharded(plays: Sequence[PlayRow]) -> list[ReportTable]:
    """Returns the tables of sharded conversations: by condition, and the kinds of replies."""
    rows = sorted(aptitudes(scored(plays)), key=lambda row: place_of(row.condition, ALL_CONDITIONS))
    by_task = sorted(rows, key=lambda row: row.task)
    return [aptitude_table(by_task, plays), *_categories(plays)]


def _categories(plays: Sequence[PlayRow]) -> list[ReportTable]:
    """Returns the table of the kinds of replies; none where no reply was classified.

    Its rows are counted by the plain condition, whatever the number of merged shards and the temperatures.
    """
    rows = replies_by_condition(plays, ALL_CONDITIONS)
    if not rows:
        return []
    names = ("condition", "turns", "stand_ins", *CATEGORIES)
    table = [_row([row[name] for name in names], plays, condition=row["condition"]) for row in rows]
    columns = (
        _CONDITION_COLUMN,
        ReportColumn("turns", "count", description="Times that the user spoke."),
        ReportColumn(
            "stand-ins",
            "count",
            description="Shards sent verbatim because the simulated user gave no usable reply.",
        ),
        *(
            ReportColumn(name.replace("_", " "), "count", description="Replies of this kind.")
            for name in CATEGORIES
        ),
    )
    return [ReportTable("kinds of replies", columns, tuple(table))]


def aptitude_json(rows: Sequence[Aptitude]) -> list[dict[str, Any]]:
    """Returns the rows as JSON values; `of_full` has shares of the condition FULL, None where it was not played."""
    full_rows = _full_by_task_and_model(rows)
    return [asdict(row) | {"of_full": _relative_to_full(row, full_rows)} for row in rows]


def _relative_to_full(
    row: Aptitude, full_rows: Mapping[tuple[str, str], Aptitude]
) -> dict[str, float | None]:
    """Returns P, A90 and U90-10 of a condition as shares of those of FULL; None where these are 0 or not known."""
    full_row = full_rows.get((row.task, row.model))
    if full_row is None:
        return {"performance": None, "aptitude": None, "unreliability": None}
    spread_is_known = row.fewest > 1 and full_row.fewest > 1
    return {
        "performance": row.performance / full_row.performance if full_row.performance else None,
        "aptitude": row.aptitude / full_row.aptitude if full_row.aptitude else None,
        "unreliability": row.unreliability / full_row.unreliability
        if spread_is_known and full_row.unreliability
        else None,
    }


def _full_by_task_and_model(rows: Iterable[Aptitude]) -> dict[tuple[str, str], Aptitude]:
    """Returns the rows of the condition FULL, the first of `ALL_CONDITIONS`, by task and model."""
    return {
        (row.task, row.model): row for row in rows if place_of(row.condition, ALL_CONDITIONS) == 0
    }


def _aptitude_cells(row: Aptitude, full_rows: Mapping[tuple[str, str], Aptitude]) -> list[Cell]:
    """Returns the cells of the columns `_APTITUDE_COLUMNS`."""
    shares = _relative_to_full(row, full_rows)
    return [
        row.runs,
        row.performance,
        shares["performance"],
        row.aptitude,
        row.unreliability if row.fewest > 1 else None,
        shares["aptitude"],
        shares["unreliability"],
    ]


def _sharded_summary(result: Mapping[str, Any]) -> str:
    """Returns the score of a sharded conversation, and how much of the instruction was revealed."""
    score = result["score"]
    text = "no attempt" if score is None else f"score {100 * score:.0f}"
    if result["condition"] in ONE_TURN:
        return text
    return f"{text} · {counted(result['turns'], 'turn')} · {result['revealed']} of {result['shards']} shards"


# Forms


def module_table(plays: Sequence[PlayRow]) -> ReportTable:
    """Returns how well each module followed its instructions in the plays that ended."""
    columns = (
        ReportColumn("module", "text", description="One prompt with one kind of reply."),
        ReportColumn("replies", "count", description="How often it was used, fallbacks included."),
        ReportColumn("asked again", "count", description="First replies that did not fit."),
        ReportColumn(
            "failed",
            "count",
            description="Times that no reply followed the instructions; a fallback replied.",
        ),
    )
    table = [
        ReportRow((row.module, row.replies, row.repeated_calls, row.failed))
        for row in by_module(play.result for play in plays if play.reason is None)
    ]
    return ReportTable("modules", columns, tuple(table))


def form_table(filled_forms: Sequence[FilledForm]) -> ReportTable:
    """Returns models by forms, as in Tables 1 and 2 of Hakimov et al., and the means over forms of their Figure 2, with
    the plays behind each row."""
    rows = [
        ReportRow(
            (
                one_line(row.model, _MAX_NAME_CHARS), row.variant, row.form or "all", row.runs, row.complete,
                row.failed, row.fields, row.turns, row.repetitions, row.filled_share, row.success, row.efficiency,
                row.filled_score, row.score,
            ),
            plays=tuple(
                filled.play_id
                for filled in filled_forms
                if filled.play_id is not None
                and (filled.model, filled.variant) == (row.model, row.variant)
                and row.form in ("", filled.result["form"])
            ),
        )
        for row in form_rows(filled_forms)
    ]  # fmt: skip
    note = (
        "Figures are of the runs that did not fail; without one they are unknown (× in the paper)."
    )
    return ReportTable("models by form", _FORM_COLUMNS, tuple(rows), (note,))


def _forms_summary(result: Mapping[str, Any]) -> str:
    """Returns the scores of a filled form, and how the run ended."""
    required = "{} of {}".format(*result["required"])
    text = f"{FormScores.of(result).headline} · {counted(result['turns'], 'turn')} · required {required}"
    return f"{text} · ended by {result['ended']}"


# Users with profiles


def _recsim(plays: Sequence[PlayRow]) -> list[ReportTable]:
    """Returns the table of users with profiles, a row for each task."""
    table = [
        _row(
            [
                row.task, row.conversations, row.turns, row.goodbyes, round(row.user_chars),
                round(row.assistant_chars), row.stand_ins,
            ],
            plays,
            task=row.task,
        )
        for row in by_task(play.result for play in plays)
    ]  # fmt: skip
    return [ReportTable("by task", _TASK_COLUMNS, tuple(table))]


def _recsim_summary(result: Mapping[str, Any]) -> str:
    """Returns the number of turns, and how the conversation ended."""
    ended = "goodbye" if result["ended"] == "goodbye" else "out of turns"
    return f"{counted(result['turns'], 'turn')} · {ended}"


_TABLES: Mapping[str, Callable[[Sequence[PlayRow]], list[ReportTable]]] = {
    "sharded": _sharded,
    "recsim": _recsim,
}
"""Makes the tables of the ended plays of each kind but forms, which are compared over all sets of a project."""

_SUMMARIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "sharded": _sharded_summary,
    "forms": _forms_summary,
    "recsim": _recsim_summary,
}
"""Describes a result of each kind in a few words."""
