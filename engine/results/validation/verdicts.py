"""Compares all sets of scores with the verdicts of people: the truth where none was imported.

A *verdict* is what a person said of a conversation: complete, incomplete or unsure. A *set* of scores is what one
configuration (mode, model, adapter) made; its *rule* has the threshold from which a score counts as complete.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import Verdict, render_log
from engine.base.errors import NotYet
from engine.base.number_format import counted
from engine.base.report_table import ReportColumn, ReportRow, ReportTable, row_as_json
from engine.base.statistics.intervals import Contrast
from engine.base.statistics.ranking import roc
from engine.completeness.baselines import sounds_complete
from engine.completeness.records import DecisionRule
from engine.completeness.service.sets import name_of
from engine.completeness.tables import score_sets, scores
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations, selecting
from engine.project.project import Project
from engine.project.sql import id_pages, snapshot
from engine.questions.tables import answers
from engine.results.metrics.completeness import against_labels
from engine.results.metrics.conclusions import contrasts_about, contrasts_json
from engine.results.records import SeparationRow
from engine.results.validation.completeness import HASH_CHARS_IN_TITLE, KEYWORDS
from engine.results.validation.completeness_report import ROC

MIN_VERDICTS_OF_EACH = 5
"""Fewest verdicts of each kind for a table: with less, every interval is nearly the whole range."""

MIN_SCORED_SHARE = 0.5
"""Least share of the judged conversations that a set must score for a row."""

TITLE = "verdicts of people"
"""Title of the table."""

_HOW_TO_GIVE = "Give verdicts in triage, or bring them with `workbench answers --import`."
"""Says how verdicts come into a project."""


@dataclass(frozen=True, slots=True)
class VerdictValidation:
    """All sets of scores against the verdicts.

    Attributes:
        judged: Number of conversations with the verdict complete or incomplete.
        unsure: Number of those with the verdict unsure, which are left out.
        n, complete: Number of judged conversations that all rows score, and of complete ones among them.
        rows: Every set of scores, and the keyword rule, at their thresholds over these conversations.
        left_out: Sets that score too few of the judged conversations, with how many.
        contrasts: Every two rows by AUROC.
    """

    judged: int
    unsure: int
    n: int
    complete: int
    rows: tuple[SeparationRow, ...]
    left_out: tuple[tuple[str, int], ...]
    contrasts: tuple[Contrast, ...]


def verdict_validation(project: Project, query: ListQuery) -> VerdictValidation:
    """Returns every set of scores compared with the verdicts in force.

    Raises:
        UsageError: There are too few verdicts, or nothing that was judged is scored.
    """
    with project.reading() as conn, snapshot(conn):
        ids = frozenset(selecting.ids(conn, query))
        verdict_by_id = {key: verdict for key, verdict in answers.in_force(conn) if key in ids}
        complete = {
            key: verdict is Verdict.YES
            for key, verdict in verdict_by_id.items()
            if verdict is not Verdict.UNSURE
        }
        _require_verdicts(complete)
        configs = score_sets.configs(conn)
        sets = [
            _ScoreSet(
                config,
                scores.normalised_scores(conn, config.config_hash, list(complete)),
                score_sets.rule(conn, config.config_hash),
            )
            for config in configs
        ]
        covered = [
            score_set
            for score_set in sets
            if len(score_set.values) >= MIN_SCORED_SHARE * len(complete)
        ]
        if not covered:
            raise NotYet(
                f"No set of scores has half of the {len(complete):,} judged conversations.",
                "`workbench run complete PROJECT` scores them.",
            )
        keys = sorted(set.intersection(*(set(score_set.values) for score_set in covered)))
        keywords = _keywords(conn, keys)
    labels = [complete[key] for key in keys]
    _require_verdicts(dict(zip(keys, labels, strict=True)))
    rows, contrasts = _compared_rows(covered, keys, labels, keywords)
    return VerdictValidation(
        judged=len(complete),
        unsure=len(verdict_by_id) - len(complete),
        n=len(keys),
        complete=sum(labels),
        rows=tuple(rows),
        left_out=tuple(
            (name_of(score_set.config), len(score_set.values))
            for score_set in sets
            if score_set not in covered
        ),
        contrasts=contrasts,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreSet:
    """A set of scores of the judged conversations.

    Attributes:
        values: Score at the last boundary of each judged conversation that it has, by id.
        rule: Its threshold.
    """

    config: score_sets.ScoreConfig
    values: Mapping[int, float]
    rule: DecisionRule


def _compared_rows(
    sets: Sequence[_ScoreSet], keys: Sequence[int], labels: list[bool], keywords: list[float]
) -> tuple[list[SeparationRow], tuple[Contrast, ...]]:
    """Returns a row for each set and one for the keyword rule, and the contrasts of every two rows.

    Args:
        keys: Ids of the conversations that all sets score.
        labels: Whether each of them is complete, in the order of the keys.
        keywords: Value of the keyword rule for each, in the same order.
    """
    names = _names([score_set.config for score_set in sets])
    set_by_name = {names[score_set.config.config_hash]: score_set for score_set in sets}
    scorings = {
        **{
            name: [score_set.values[key] for key in keys] for name, score_set in set_by_name.items()
        },
        KEYWORDS: keywords,
    }
    thresholds = {name: score_set.rule.threshold for name, score_set in set_by_name.items()}
    metrics, contrasts = against_labels(scorings, labels, thresholds)
    rows = [
        SeparationRow(
            name,
            "scores",
            len(score_set.values),
            metrics[name],
            mode=score_set.config.mode,
            features=score_set.config.features,
            config_hash=score_set.config.config_hash,
            rule=score_set.rule,
            roc=roc(scorings[name], labels),
        )
        for name, score_set in set_by_name.items()
    ]
    rows.append(
        SeparationRow(KEYWORDS, "keywords", len(keys), metrics[KEYWORDS], roc=roc(keywords, labels))
    )
    return rows, contrasts


def _require_verdicts(complete: Mapping[int, bool]) -> None:
    """Raises NotYet if there are too few verdicts of one kind for a comparison.

    Args:
        complete: Whether each judged conversation is complete, by its id.
    """
    complete_count = sum(complete.values())
    if not complete:
        raise NotYet("Nobody has judged what is scored.", _HOW_TO_GIVE)
    if min(complete_count, len(complete) - complete_count) < MIN_VERDICTS_OF_EACH:
        raise NotYet(
            f"{counted(complete_count, 'verdict')} complete and {len(complete) - complete_count:,} incomplete"
            f" on what is scored: a comparison needs {MIN_VERDICTS_OF_EACH} of each.",
            _HOW_TO_GIVE,
        )


def _names(configs: Sequence[score_sets.ScoreConfig]) -> dict[str, str]:
    """Returns a name for each config hash, with the start of the hash where two would have the same."""
    names = {config.config_hash: name_of(config) for config in configs}
    shared_names = {name for name in names.values() if list(names.values()).count(name) > 1}
    return {
        config_hash: f"{name} {config_hash[:HASH_CHARS_IN_TITLE]}" if name in shared_names else name
        for config_hash, name in names.items()
    }


def _keywords(conn: sqlite3.Connection, keys: Sequence[int]) -> list[float]:
    """Returns 1 for each conversation that ends with words of thanks or farewell, 0 for each other, in the order of the
    keys."""
    keywords = {
        key: float(sounds_complete(render_log(messages)))
        for page in id_pages(conn, keys)
        for key, messages in conversations.conversations_for(conn, page)
    }
    return [keywords[key] for key in keys]


_COLUMNS = (
    ReportColumn("", "text", "name"),
    ReportColumn("accuracy", "interval", "accuracy"),
    ReportColumn("precision", "interval", "precision", on_screen=False),
    ReportColumn("recall", "interval", "recall", on_screen=False),
    ReportColumn("F1", "interval", "f1"),
    ReportColumn("AUROC", "interval", "auroc", chance=0.5),
)
"""Columns of the table; screens leave out two."""


def verdict_table(validation: VerdictValidation) -> ReportTable:
    """Returns the comparison as a report table."""
    unsure = f", {validation.unsure:,} unsure ones left out" if validation.unsure else ""
    notes = [
        f"{validation.complete:,} complete and {validation.n - validation.complete:,} incomplete, scored by all rows,"
        f" of {counted(validation.judged, 'judged conversation')}{unsure}",
        "a person chose what to judge, so that these are not the rates of all conversations",
    ]
    notes += [
        f"left out, too few scores: {name} ({count:,})" for name, count in validation.left_out
    ]
    return ReportTable(
        TITLE,
        _COLUMNS,
        tuple(_row(row, validation) for row in validation.rows),
        tuple(notes),
        metric="verdicts",
        plots=(ROC,),
    )


def _row(row: SeparationRow, validation: VerdictValidation) -> ReportRow:
    """Returns the row of one set of scores."""
    description = "a rule on words of thanks and farewell"
    note = ""
    if row.rule is not None:
        description = f"complete from {row.rule.threshold:.2f} up"
        if row.rule.source == "calibrated":
            note = "its threshold was fitted to these verdicts, so accuracy and F1 are too high"
    return ReportRow(
        (row.name, *(getattr(row.metrics, column.key) for column in _COLUMNS[1:])),
        "baseline" if row.rule is None else "method",
        description=description,
        note=note,
        conclusions=contrasts_about(row.name, validation.contrasts),
        curves=(row.roc,),
        details={
            "mode": row.mode,
            "features": row.features,
            "config_hash": row.config_hash,
            "scored": row.scored,
            "threshold": None if row.rule is None else row.rule.threshold,
        },
    )


def verdicts_json(validation: VerdictValidation) -> dict[str, Any]:
    """Returns the comparison as JSON values."""
    table = verdict_table(validation)
    return {
        "verdicts": {
            "judged": validation.judged,
            "unsure": validation.unsure,
            "conversations": validation.n,
            "complete": validation.complete,
            "left_out": [{"name": name, "scored": count} for name, count in validation.left_out],
            "rows": [row_as_json(table, row) for row in table.rows],
            **contrasts_json(validation.contrasts),
        }
    }
