"""`workbench backup`, `restore` and `repair`: the project file as a whole."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.base.number_format import counted, size
from engine.base.text import message_safe
from engine.project.backups import BACKUPS_KEPT, back_up, backups_of, restore
from engine.project.project import Project
from engine.project.repair import Repair, repair
from workbench.arguments import PROJECT, argument, number, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult


@takes(
    PROJECT,
    number(
        "--keep",
        "how many backups of this command stay; those before upgrades always do",
        BACKUPS_KEPT,
    ),
)
def backup(arguments: argparse.Namespace) -> CommandResult:
    """Makes a backup, also while the project is open elsewhere, and removes the oldest ones."""
    new_backup, removed = back_up(arguments.project, arguments.keep)
    return CommandResult(
        [message_safe(new_backup)],
        {"backup": new_backup, "removed": removed},
        hints=[f"Removed {old}." for old in removed],
    )


@takes(
    PROJECT,
    argument(
        "backup",
        nargs="?",
        help="the file to restore, which stays; without it the backups are listed. The present file is kept beside",
    ),
)
def restore_backup(arguments: argparse.Namespace) -> CommandResult:
    """Lists the backups, or restores one and says where the present file is."""
    project = arguments.project
    if arguments.backup is None:
        return _list_backups(project)
    present = restore(project, arguments.backup)
    lines = [message_safe(f"{project} is as in {arguments.backup}.")]
    if present is not None:
        lines.append(message_safe(f"What was there before is {present}."))
    return CommandResult(lines, {"project": project, "restored": arguments.backup, "kept": present})


def _list_backups(project: str) -> CommandResult:
    """Returns the backups of a project, and how to restore one."""
    backups = backups_of(project)
    if backups:
        hint = f"To put one in place: `workbench restore {project} BACKUP`."
    else:
        hint = f"There is no backup beside {project}. `workbench backup {project}` makes one."
    return CommandResult(
        [message_safe(f"{each.made}  {size(each.size)}  {each.path}") for each in backups],
        {"backups": [asdict(backup) for backup in backups]},
        hints=[hint],
    )


@takes(
    argument("project", help="the damaged file, which is only read"),
    argument(
        "-o", "--output", required=True, metavar="FILE", help="a new file for what can be read"
    ),
)
def repair_project(arguments: argparse.Namespace) -> CommandResult:
    """Saves what can be read in a new file, opens that file, and says what is lost."""
    report = repair(arguments.project, arguments.output)
    Project.open(arguments.output).close()
    return CommandResult(
        _repair_lines(report, arguments.output),
        {**asdict(report), "whole": report.is_whole},
        EXIT_DONE if report.is_whole else EXIT_INCOMPLETE,
    )


def _repair_lines(report: Repair, output: str) -> list[str]:
    """Returns what was saved and what is lost."""
    conversations = counted(report.rows.get("conversation", 0), "conversation")
    messages = counted(report.rows.get("message", 0), "message")
    verdicts = counted(report.rows.get("answer", 0), "act")
    lines = [message_safe(f"{output} has {conversations}, {messages} and {verdicts} of triage.")]
    if report.is_whole:
        return [*lines, "Nothing is lost."]
    if report.unread:
        lines.append(f"Some rows could not be read of: {', '.join(sorted(report.unread))}.")
    lines += [
        f"{counted(count, 'row')} of {table} left out, because what they belong to is lost."
        for table, count in sorted(report.orphans.items())
    ]
    if report.shortened:
        examples = ", ".join(report.examples)
        lines.append(f"{counted(report.shortened, 'conversation')} lost messages: {examples}.")
        lines.append("Import their source again to have them whole.")
    return lines
