"""`workbench ask`, `questions` and `answers`: asks questions of conversations, and lists and stores answers."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.conversation import SUCCEEDED
from engine.base.errors import FormatError, NotYet, UsageError
from engine.base.number_format import counted
from engine.base.text import one_line, short_name
from engine.conversations.filter_fields import QUESTION_FIELD
from engine.conversations.filters import ListQuery, is_question
from engine.opener.open_project import OpenProject
from engine.project.records import estimate_lines
from engine.questions.question import NOTE, Question, hyphenate
from engine.questions.records import NO_NAME, NewAnswer
from engine.questions.service import answer_tables
from engine.questions.service.answers import AnswerReport, import_answers
from engine.questions.service.asking import AskRequest
from engine.questions.service.calibration import PeopleAgreement
from engine.questions.service.questions import QuestionSummary
from engine.results.comparison.answer_rates import rates_json
from workbench.arguments import (
    ANNOTATOR,
    DRY_RUN,
    FILTER,
    PROJECT,
    argument,
    one_of,
    only_with,
    read_request,
    request_arguments,
    switch,
    takes,
    titled,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands.goals import conversation
from workbench.narration import narrate, run_stages
from workbench.text_tables import fact_lines, table_lines

# Asking


_FOR_MODELS = ("votes", "windows", "context", "max_cost", "fresh", "anyway")
"""Options of `ask` that say how a model is asked."""


@takes(
    PROJECT,
    argument(
        "question",
        help="name of a question, a TOML file, or the question itself in quotation marks",
    ),
    argument(
        "--by",
        choices=["person", "pattern", "examples", "model"],
        help="who answers: people in triage, the patterns of the question, a probe fitted to the answers yes and no"
        " of people, or a model (default: model with --model, else pattern where the question has one, else person)",
    ),
    argument(
        "--pattern",
        default="",
        metavar="WORDS",
        help="--by pattern, for a new question in quotation marks: words that mean yes, separated by commas, or"
        " /a regular expression/",
    ),
    *request_arguments(AskRequest),
    switch(
        "--check",
        "draw 20 conversations on which a person checks what answered last, and list those that wait for it",
    ),
    switch("--estimate", "only say how many conversations would be asked, and what a model costs"),
)
def ask(arguments: argparse.Namespace) -> CommandResult:
    """Asks a question of conversations. What was answered already in this way is not asked again.

    Raises:
        UsageError: There is no such question, or this cannot answer it.
    """
    if arguments.check and arguments.estimate:
        raise UsageError("A check asks no machine.", "Leave out --estimate, or --check.")
    with OpenProject(Path(arguments.project), read_only=arguments.estimate) as workspace:
        is_new = arguments.question.endswith(("?", ".toml"))
        question = workspace.questions.find(
            arguments.question,
            keep=is_new and not arguments.estimate,
            pattern=arguments.pattern,
        )
        if arguments.check:
            return _draw_check(workspace, question)
        by = arguments.by or (
            "model" if "model" in arguments else "pattern" if question.patterns else "person"
        )
        only_with(arguments, "--model", by == "model", *_FOR_MODELS)
        request = read_request(AskRequest, arguments, by="model" if by == "model" else "pattern")
        if by == "examples" and not arguments.estimate:
            return _ask_examples(workspace, question)
        if by in ("person", "examples"):
            ids = workspace.conversations.ids(ListQuery(request.filter))[: request.limit]
            return _waiting_result(workspace, question, len(ids), by)
        estimate = workspace.asking.estimate(question, request)
        if arguments.estimate:
            return CommandResult(
                estimate_lines(estimate),
                {
                    "question": question.name,
                    "by": by,
                    "conversations": estimate.items,
                    **asdict(estimate),
                },
            )
        narrate(*estimate_lines(estimate))
        stage, stages = workspace.asking.stages(question, request)
        run_stages(workspace, stages)
        summary = workspace.questions.summary(question.name)
    without = stage.counts[None] if by == "model" else 0
    # a name that is like one of a field stands behind `answer.`
    field = question.name if is_question(question.name) else f"{QUESTION_FIELD}.{question.name}"
    return CommandResult(
        [
            stage.summary(),
            f"Filter: {question.name}@{hyphenate(stage.by)}:ANSWER, or {field}:ANSWER.",
            _check_line(workspace, question),
        ],
        {
            **_summary_json(summary),
            "answered": stage.counts.total(),
            "without_answer": stage.counts[None],
            "by": by,
        },
        EXIT_INCOMPLETE if without else EXIT_DONE,
    )


def _waiting_result(
    workspace: OpenProject, question: Question, count: int, by: str
) -> CommandResult:
    """Returns how many conversations wait for an answer, and how a person gives one."""
    lines = [f"{question.text} ({question.name}): {counted(count, 'conversation')} to ask."]
    if by == "person":
        path = workspace.project.path
        keys = "key 3" if question.name == SUCCEEDED else "keys 3 and Q"
        lines.append(f"Triage asks them one by one (`workbench {path}`, {keys}), or:")
        lines.append(f"  workbench answers {path} {question.name} --give ID ANSWER")
    return CommandResult(lines, {"question": question.name, "by": by, "conversations": count})


def _check_line(workspace: OpenProject, question: Question) -> str:
    """Returns a line on how a person checks how often a machine is right."""
    path = workspace.project.path
    return f"How far it is right: Q in triage, or workbench ask {path} {question.name} --check"


def _draw_check(workspace: OpenProject, question: Question) -> CommandResult:
    """Draws conversations on which a person checks a machine, and lists those that wait.

    Raises:
        NotYet: No machine has answered, or no conversation waits.
    """
    workspace.questions.draw_check(question.name)
    page = workspace.triage.queue("check", question=question.name)
    if not page.total:
        raise NotYet(
            f"Nothing waits for a check of {question.name}: no machine has answered it, or people have answered"
            " everything that one has."
        )
    rows = workspace.conversations.rows([item.conversation_id for item in page.items])
    names = [row.external_id for row in rows]
    path = workspace.project.path
    return CommandResult(
        [
            f"{question.text} {counted(len(names), 'conversation')} to answer, in this order:",
            *(f"  {one_line(name, 60)}" for name in names),
            f"  workbench answers {path} {question.name} --give ID ANSWER",
            f"  workbench questions {path} --agreement {question.name}",
        ],
        {"question": question.name, "waiting": names},
    )


def _ask_examples(workspace: OpenProject, question: Question) -> CommandResult:
    """Fits a probe to the answers yes and no of people."""
    name = question.name
    probe = workspace.example_probes.fit(name)
    lines = fact_lines(probe.facts())
    if name == SUCCEEDED:
        share = workspace.calibration.report().rate.corrected_text
        lines += fact_lines([("share of all", share)])
    else:
        lines += fact_lines([("filter", f"{name}@examples:yes, {name}@examples>.8")])
        lines.append(_check_line(workspace, question))
    return CommandResult(lines, asdict(probe))


# Questions


@takes(
    PROJECT,
    one_of(
        argument("--show", metavar="NAME", help="print the file of a question"),
        argument(
            "--add",
            metavar="FILE",
            help="take a question from a TOML file; its name is that of the file",
        ),
        argument("--remove", metavar="NAME", help="take a question out; its answers stay"),
        argument(
            "--agreement",
            metavar="NAME",
            help="how far those agree who answered a question: people, patterns, models and files",
        ),
        argument("--rates", metavar="NAME", help="how often each answer to a question was given"),
    ),
    argument(
        "--by",
        metavar="FIELD",
        default="",
        help="--rates: by the values of a field: goal, turns, model, source, month, tag, meta.KEY, truth.KEY, ...",
    ),
    FILTER,
)
def questions(arguments: argparse.Namespace) -> CommandResult:
    """Lists the questions with who answered them, or shows, adds or removes one, or how it was answered.

    Raises:
        UsageError: --by or --filter without --rates, or there is no such field.
        NotFound: There is no such question.
    """
    only_with(arguments, "--rates", arguments.rates, "by", "filter")
    writes = bool(arguments.add or arguments.remove)
    with OpenProject(Path(arguments.project), read_only=not writes) as workspace:
        service = workspace.questions
        if arguments.show:
            text = service.file(arguments.show)
            return CommandResult(text.splitlines(), {"question": arguments.show, "file": text})
        if arguments.agreement:
            name = service.find(arguments.agreement).name
            people, checks = workspace.calibration.people(name), service.checks(name)
            sentences = people.sentences() or [_too_few_text(people, name)]
            return CommandResult(
                [*sentences, *(line for check in checks for line in check.sentences())],
                {**asdict(people), "checks": [asdict(check) for check in checks]},
            )
        if arguments.rates:
            question = service.find(arguments.rates)
            table = workspace.comparison.rates(question, arguments.by, arguments.filter)
            rates = rates_json(table, question)
            return CommandResult(
                table_lines(table), {"question": question.name, "by": arguments.by, "rates": rates}
            )
        if arguments.add:
            added = service.add(Path(arguments.add))
            narrate(f"Added {added.name}.")
        if arguments.remove:
            service.remove(arguments.remove)
            narrate(f"Removed {arguments.remove}.")
        rows = service.all()
    return CommandResult(
        [line for row in rows for line in _summary_lines(row)],
        {"questions": [_summary_json(row) for row in rows]},
    )


def _summary_lines(row: QuestionSummary) -> list[str]:
    """Returns a line with a question, and below it a line for each who answered it."""
    lines = [
        f"{one_line(row.question.name, 30):<26} {row.question.kind:<8} {one_line(row.question.text, 80)}"
    ]
    for by, counts in row.answers:
        shown = ", ".join(f"{one_line(value, 30)} {count:,}" for value, count in counts.items())
        lines.append(f"    {short_name(by)}: {shown or 'no answer'}")
    return lines


def _summary_json(row: QuestionSummary) -> dict[str, Any]:
    """Returns a question with who answered it as JSON values."""
    return {
        "question": row.question.name,
        "text": row.question.text,
        "kind": row.question.kind,
        "answers": [{"by": by, "counts": counts} for by, counts in row.answers],
    }


def _too_few_text(people: PeopleAgreement, name: str) -> str:
    """Returns a sentence on why there is no agreement of fewer than two answerers, and how others can answer."""
    how = "answer in triage with `@` (their name) and `b`, or their answers come by `workbench answers --import`."
    for who, judged in people.people.items():
        conversations = counted(judged, "conversation")
        if who in people.machines:
            return f"{short_name(who)} answers {name} on {conversations} here, and no person does. People {how}"
        return f"One person has judged {conversations} by {name} here. Others {how}"
    return f"Nobody has answered {name} here. People {how}"


# Answers


@takes(
    PROJECT,
    argument("question", help="name of a question"),
    argument(
        "--give",
        nargs=2,
        action="append",
        default=[],
        metavar=("ID", "ANSWER"),
        help="answer for a conversation; an empty answer takes the one there is away; may be repeated",
    ),
    switch(
        "--blind",
        "given without seeing earlier answers: kept beside the one in force, for agreement",
    ),
    one_of(
        switch("--undo", "take the newest act back, whatever it answered"),
        switch("--redo", "give again what was taken back last"),
        argument(
            "--import",
            dest="file",
            metavar="FILE",
            help="what people answered in Label Studio (JSON or JSON-MIN), in a copy of the project (export answers) or"
            " in lines with an id, an answer and an `annotator`",
        ),
        argument(
            "--from",
            dest="field",
            metavar="FIELD",
            help="what came with the conversations: a field of their truth or metadata, such as truth.rating.Diversity",
        ),
    ),
    switch("--replace", "--import, --from: give answers also where there are other ones"),
    titled(
        "answers that are no person's: of a judge elsewhere, a rating, another tool (JSON Lines, JSON or CSV)",
        argument(
            "--name",
            default="",
            help="who answers (default: the name of the file; `truth` or `meta`)",
        ),
        argument(
            "--id",
            metavar="FIELD",
            default="",
            help=f"field of the conversations' ids (default: {', '.join(answer_tables.IDS)})",
        ),
        argument(
            "--value",
            metavar="FIELD",
            default="",
            help=f"field of the answers (default: the name of the question, {', '.join(answer_tables.VALUES)})",
        ),
    ),
    DRY_RUN,
    FILTER,
    ANNOTATOR,
)
def answers(arguments: argparse.Namespace) -> CommandResult:
    """Lists the answers to a question, gives some in one act, takes an act back, or reads answers from a file.

    Raises:
        UsageError: There is no such question or conversation, or the question cannot have such an answer.
        NotYet: There is nothing to undo or redo.
    """
    gives = bool(arguments.give)
    imports = bool(arguments.file or arguments.field)
    writes = gives or arguments.undo or arguments.redo or imports
    only_with(arguments, "--give", gives, "blind")
    only_with(arguments, "--import or --from", imports, "name", "replace", "dry_run")
    only_with(arguments, "--import", arguments.file, "id", "value")
    is_of_people = writes and not (arguments.field or arguments.name)
    only_with(arguments, "--give, or --import without --name", is_of_people, "annotator")
    only_with(arguments, "the list of answers", not writes, "filter")
    read_only = arguments.dry_run or not writes
    with OpenProject(Path(arguments.project), read_only=read_only) as workspace:
        workspace.triage.annotator = arguments.annotator
        if arguments.undo or arguments.redo:
            return _undo_or_redo(workspace, redo=arguments.redo)
        question = workspace.questions.find(arguments.question, keep=gives)
        if imports:
            report = _import_answers(workspace, question, arguments)
            note = ["Nothing is stored; it would be:"] if arguments.dry_run else []
            lines = [*note, *report.sentences()]
            if isinstance(report, answer_tables.FileAnswersReport):
                lines += _machine_lines(report.name, question, arguments.project)
            return CommandResult(
                lines,
                {**report.as_json(), "dry_run": arguments.dry_run},
                EXIT_INCOMPLETE if report.outcomes.has_gaps else EXIT_DONE,
            )
        if gives:
            return _give(workspace, question, arguments)
        rows = workspace.questions.answers(question.name, ListQuery(arguments.filter))
    return CommandResult(
        [
            f"{one_line(row.conversation, 30):<30}  {short_name(row.value or '–'):<12}"
            f"  {one_line(row.by or NO_NAME, 30)}"
            + "".join(f"  {one_line(text, 100)}" for text in (row.explanation, row.note) if text)
            for row in rows
        ]
        or [f"Nobody has answered {question.name} on these."],
        {"question": question.name, "answers": [asdict(row) for row in rows]},
    )


def _import_answers(
    workspace: OpenProject, question: Question, arguments: argparse.Namespace
) -> AnswerReport | answer_tables.FileAnswersReport:
    """Imports answers from a field or a file: as answers of people if somebody names them, else of the file itself."""
    how = {"replace": arguments.replace, "dry_run": arguments.dry_run}
    fields = {"id_field": arguments.id, "value_field": arguments.value}
    # an export names its questions itself; lines with an answer each are of this one
    forms = (question,) if arguments.id or arguments.value else (None, question)
    for question_of_lines in forms if arguments.file and not arguments.name else ():
        try:
            return import_answers(
                workspace.project,
                Path(arguments.file),
                annotator=arguments.annotator,
                question=question_of_lines,
                **how,
                **fields,
            )
        except FormatError:
            if question_of_lines is not None and arguments.annotator:
                raise
    if arguments.field:
        return answer_tables.import_field_answers(
            workspace.project, arguments.field, question, name=arguments.name, **how
        )
    return answer_tables.import_file_answers(
        workspace.project, Path(arguments.file), question, name=arguments.name, **how, **fields
    )


def _machine_lines(name: str, question: Question, project: str) -> list[str]:
    """Returns lines on imported answers that count as those of a machine of this name."""
    by = f"{question.name}@{hyphenate(name)}"
    why = f"What goes with them: workbench why {project} --a {by}:no --b {by}:yes"
    return [
        f"They are a machine's answers named “{name}”; of a file, `--annotator NAME` makes them a person's.",
        *([why] if question.kind == "yes-no" else []),
    ]


def _give(
    workspace: OpenProject, question: Question, arguments: argparse.Namespace
) -> CommandResult:
    """Stores answers in one act, which one undo takes back."""
    acts = []
    for name, value in arguments.give:
        key, answer = conversation(workspace, name), question.answer(value) if value else None
        acts.append(NewAnswer(key, question.name, answer, blind=arguments.blind))
    stored = workspace.triage.answer(acts)
    return CommandResult(
        [f"Stored for {counted(stored, 'conversation')}."],
        {"conversations": len(acts), "stored": stored},
    )


def _undo_or_redo(workspace: OpenProject, *, redo: bool) -> CommandResult:
    """Takes the newest act of people back, or redoes the one that was taken back last.

    Raises:
        NotYet: There is no such act.
    """
    row = workspace.triage.redo() if redo else workspace.triage.undo()
    word = "given again" if redo else "taken back"
    if row is None:
        raise NotYet(f"There is nothing to be {word}.")
    what = (
        "Verdict" if row.question == SUCCEEDED else "Note" if row.question == NOTE else row.question
    )
    blind = ", blind," if row.blind else ""
    return CommandResult(
        [f"{what}{blind} on {counted(row.count, 'conversation')} {word}."],
        {"question": row.question, "conversations": row.count, "redo": redo},
    )
