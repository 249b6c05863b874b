"""Writes conversations in a form, and says what it has no place for."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from engine.base.errors import UsageError
from engine.base.line_files import write_beside, write_file, write_lines, write_parquet
from engine.base.number_format import counted
from engine.opener import annotation_tasks, conversation_forms
from engine.opener.conversation_forms import Companion, ConversationForm, Exported, exported
from engine.questions.question import Question

ENDINGS: dict[ConversationForm, str] = {
    "openai": "jsonl",
    "anthropic": "jsonl",
    "sharegpt": "jsonl",
    "inspect": "json",
    "csv": "csv",
    "parquet": "parquet",
    "label-studio": "json",
}
"""The usual end of the name of a file in each form; also what it is written as."""

_COUNTED_BY_CONVERSATION = ("metadata", "truth")
"""What is counted by conversations; everything else by messages."""

WRITERS: dict[
    ConversationForm, Callable[[Iterable[Exported], Counter[str]], Iterator[dict[str, Any]]]
] = {
    "openai": conversation_forms.openai,
    "anthropic": conversation_forms.anthropic,
    "sharegpt": conversation_forms.sharegpt,
    "inspect": conversation_forms.samples,
    "csv": conversation_forms.message_rows,
    "parquet": conversation_forms.message_rows,
    "label-studio": annotation_tasks.label_studio,
}
"""What makes the records, rows or tasks of each form, and counts what it leaves behind."""


def form_lines(
    conn: sqlite3.Connection,
    form: ConversationForm,
    ids: Sequence[int] | None,
    left_behind: Counter[str],
    beside: Collection[Companion] = (),
    *,
    truth: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """Yields the records, rows or tasks of an export of conversations.

    Args:
        left_behind: Counts the messages with something for which the form has no place, by what it is, and the
            conversations with `metadata` or `truth` that are not written.
        beside: What is written beside the messages.
        truth: Writes the truth, too.

    Raises:
        UsageError: The form is for annotation, and something was asked for that would give the answer away.
    """
    if form == "label-studio" and (beside or truth):
        raise UsageError(
            "A person who judges should not see scores, verdicts or the truth.",
            f"Leave --with and --truth out for {form}.",
        )

    def count_truths() -> Iterator[Exported]:
        """Yields the conversations, and counts each truth that is not written."""
        for item in exported(conn, ids, beside, truth=truth):
            left_behind["truth"] += item.has_truth and not truth
            yield item

    yield from WRITERS[form](count_truths(), left_behind)


def write_form(
    lines: Iterable[dict[str, Any]],
    form: ConversationForm,
    path: Path,
    task: str,
    beside: Collection[Companion] = (),
    *,
    truth: bool = False,
    formulas: bool = False,
    questions: Sequence[Question] = (),
) -> int:
    """Writes lines of `form_lines` to a file, with the settings of the annotation beside it; returns how many lines.

    Args:
        task: Name of the project, which is the task in a log of Inspect.
        beside: As given to `form_lines`, and so is `truth`.
        formulas: As `write_lines` takes it.
        questions: What tasks for a person ask; empty asks for verdicts.

    Raises:
        WorkbenchError: pyarrow is needed and not installed.
        ProjectError: A file cannot be written.
    """
    if form == "parquet":
        return write_parquet(lines, conversation_forms.column_types(beside, truth=truth), path)
    count = write_file(lines, path, ENDINGS[form], _frame(form, task), formulas=formulas)
    settings = annotation_tasks.settings_file(form, path, questions)
    if settings is not None:
        settings_path, text = settings
        with write_beside(settings_path) as part:
            part.write_text(text, encoding="utf-8")
    return count


def write_form_to_stream(
    lines: Iterable[dict[str, Any]],
    form: ConversationForm,
    out: TextIO,
    task: str,
    *,
    formulas: bool = False,
) -> None:
    """Writes lines of `form_lines` to a stream; see `write_form`.

    Raises:
        UsageError: The form needs files.
    """
    if form == "parquet" or form == "label-studio":
        raise UsageError(f"The form {form} needs a file.", "Name it with -o FILE.")
    write_lines(lines, out, ENDINGS[form], _frame(form, task), formulas=formulas)


def _frame(form: ConversationForm, task: str) -> tuple[str, str]:
    """Returns what stands before and after the list of records."""
    return conversation_forms.inspect_frame(task) if form == "inspect" else ("[", "]")


def losses_in_words(form: str, left_behind: Counter[str]) -> list[str]:
    """Returns a sentence for each thing that was left behind, the most frequent first."""
    sentences = []
    for thing, count in left_behind.most_common():
        if not count:
            continue
        if thing == "truth" and form != "label-studio":
            sentences.append(
                f"{counted(count, 'conversation')} with truth, which is left out; `export --truth` adds it."
            )
            continue
        unit = "conversation" if thing in _COUNTED_BY_CONVERSATION else "message"
        hint = (
            "; the export of the table has them"
            if form in ("csv", "parquet") and thing == "metadata"
            else ""
        )
        sentences.append(
            f"{counted(count, unit)} with {thing}, which the form {form} has no place for{hint}."
        )
    return sentences
