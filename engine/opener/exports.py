"""Exports from a project as lines of JSON or CSV, for commands and screens.

What exports goals or trees is imported where these are exported, so that a list of scores does not wait for the import
of the algorithms of goals.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

from engine.base.conversation import EXPORT_OBJECT, SUCCEEDED, Conversation, State
from engine.base.line_files import new_file, write_file
from engine.completeness.records import ScoreRow
from engine.completeness.tables import scores
from engine.conversations.personal_data import Redactor
from engine.formats.records import Imported
from engine.opener import conversation_forms
from engine.opener.table_export import table_lines
from engine.project.project import Project
from engine.questions.records import AnsweredConversation
from engine.questions.tables import opinions
from engine.trees import tables as trees

ExportKind = Literal[
    "scores", "answers", "conversations", "table", "trees", "clusters", "assignments",
    "decisions",
]  # fmt: skip

NEVER_SCORED = "no run has reached it"
"""The reason of a conversation that has no score because no run has tried to score it."""


class ExportFiles:
    """Writes exports of one project to files."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def export(self, kind: ExportKind, ids: Sequence[int] | None, path: str) -> int:
        """Writes JSON Lines about conversations, in the order of `ids`, or with None about all; returns how many lines.

        Raises:
            ProjectError: There is a file at `path` already, or it cannot be written.
        """
        target = new_file(path)
        with (
            self._project.reading() as conn,
            closing(export_lines(conn, kind, ids)) as lines,
        ):
            return write_file(lines, target, "jsonl")

    def export_form(
        self, form: conversation_forms.ConversationForm, ids: Sequence[int] | None, path: str
    ) -> tuple[int, list[Path], list[str]]:
        """Writes conversations in a form, without their truth.

        Returns:
            The number of lines, the files, and a sentence for each part of conversations that was left behind.

        Raises:
            ProjectError: There is such a file already, or it cannot be written.
            WorkbenchError: pyarrow is needed and not installed.
        """
        target = new_file(path)
        files = [target]
        if (settings := conversation_forms.settings_file(form, target)) is not None:
            settings_path, _ = settings
            files.append(new_file(str(settings_path)))
        left_behind: Counter[str] = Counter()
        with (
            self._project.reading() as conn,
            closing(conversation_forms.form_lines(conn, form, ids, left_behind)) as lines,
        ):
            count = conversation_forms.write_form(
                lines, form, target, Path(self._project.path).stem
            )
        return count, files, conversation_forms.losses_in_words(form, left_behind)


def export_lines(
    conn: sqlite3.Connection,
    kind: ExportKind,
    ids: Sequence[int] | None = None,
    companions: Collection[conversation_forms.Companion] = (),
) -> Generator[dict[str, Any], None, None]:
    """Yields the lines of an export.

    Args:
        ids: The conversations, in the order of the lines; None for all in the order of import. Clusters and decisions
            are always of all conversations.
        companions: What is written with conversations, in an object `workbench`.
    """
    if kind == "scores":
        yield from starmap(score_line, scores.export_scores(conn, ids))
    elif kind == "answers":
        yield from map(answer_line, opinions.answered_conversations(conn, ids))
    elif kind == "table":
        yield from table_lines(conn, ids)
    elif kind == "trees":
        from engine.trees.measures import stored_tree_line

        for imported, row, frame in trees.export_trees(conn, ids):
            yield {**imported.names(), **stored_tree_line(imported.external_id, row, frame)}
    elif kind in ("clusters", "assignments", "decisions"):
        from engine.goals.service import json_lines as goal_exports

        if kind == "clusters":
            yield from goal_exports.cluster_lines(conn)
        elif kind == "assignments":
            yield from goal_exports.assignment_lines(conn, ids)
        else:
            yield from goal_exports.decision_lines(conn)
    else:
        for item in conversation_forms.read_conversations(conn, ids, companions, truth=True):
            line = conversation_line(item.conversation, item.source)
            yield {**line, EXPORT_OBJECT: item.companions} if item.companions else line


def redacted_lines(
    lines: Iterable[dict[str, Any]], redactor: Redactor
) -> Generator[dict[str, Any], None, None]:
    """Yields the lines without the personal data in their texts; the names of their own fields stay."""
    for line in lines:
        yield {key: redactor.value(value) for key, value in line.items()}


def score_line(conversation: Imported, score: ScoreRow | None) -> dict[str, Any]:
    """Returns a conversation with its score as JSON values; `unscored` with a reason when there is no score."""
    if score is None:
        state = {"state": str(State.UNSCORED), "reason": NEVER_SCORED}
        figures = dict.fromkeys(("p_end", "p_end_normalised", "generated"))
        origin = dict.fromkeys(("model", "adapter", "mode", "features"))
        return {**conversation.names(), **state, **figures, "curve": [], **origin}
    return {
        **conversation.names(),
        "state": str(score.state),
        "reason": score.reason,
        "p_end": score.p_end,
        "p_end_normalised": score.p_end_normalised,
        "generated": score.generated,
        "curve": [
            {
                "step": point.step,
                "turn": point.turn,
                "p_end": point.p_end,
                "p_end_normalised": point.p_end_normalised,
            }
            for point in score.curve
        ],
        "model": score.model,
        "adapter": score.adapter,
        "mode": score.mode,
        "features": score.features,
    }


def answer_line(row: AnsweredConversation) -> dict[str, Any]:
    """Returns a conversation with the answers of people as JSON values; `earlier` has those on an earlier text."""
    earlier: dict[str, Any] = {}
    if (answers := row.in_force.earlier) is not None:
        earlier = {"earlier": asdict(answers) | {"answers": dict(answers.answers)}}
    return {
        **row.conversation.names(),
        SUCCEEDED: None if row.in_force.verdict is None else str(row.in_force.verdict),
        "note": row.in_force.note,
        "given_at": row.in_force.given_at or None,
        "annotator": row.in_force.annotator,
        "answers": dict(row.in_force.answers),
        "repeats": [str(verdict) for verdict in row.repeats],
        "others": [{"annotator": other.annotator, SUCCEEDED: other.value} for other in row.others],
        "disagreement": row.disagreement,
        **earlier,
    }


def conversation_line(conversation: Conversation, source: str) -> dict[str, Any]:
    """Returns a conversation in the uniform form, with all that was imported; an import of it gives the same one."""
    messages = []
    for message in conversation.messages:
        line = conversation_forms.message_line(message)
        if message.tool_calls:
            line["tool_calls"] = conversation_forms.call_lines(message)
        if message.reasoning:
            line["reasoning"] = message.reasoning
        if message.facts:
            line["facts"] = json.loads(message.facts)
        messages.append(line)
    return {
        "id": conversation.external_id,
        "dataset": Path(source).name,
        "messages": messages,
        "meta": conversation.meta,
        "truth": conversation.truth,
        "created_at": conversation.created_at,
    }
