"""`workbench repair`: saves what can be read of a damaged project file in a new one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.base.number_format import counted
from engine.project.file.repair import Repair, repair
from engine.project.project import Project
from workbench.narration import print_json, print_text
from workbench.result import DONE, WITH_GAPS


def repair_project_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `repair_project`."""
    parser.add_argument("project", help="the damaged file, which is only read")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="a new file for what can be read"
    )


def repair_project(arguments: argparse.Namespace) -> int:
    """Saves what can be read, opens the new file, and prints what is lost."""
    report = repair(arguments.project, arguments.output)
    Project.open(arguments.output).close()
    if arguments.json:
        print_json({**asdict(report), "whole": report.is_whole})
    else:
        for sentence in _sentences(report, arguments.output):
            print_text(sentence)
    return DONE if report.is_whole else WITH_GAPS


def _sentences(report: Repair, output: str) -> list[str]:
    conversations = counted(report.rows.get("conversation", 0), "conversation")
    messages = counted(report.rows.get("message", 0), "message")
    verdicts = counted(report.rows.get("verdict", 0), "act")
    said = [f"{output} has {conversations}, {messages} and {verdicts} of triage."]
    if report.is_whole:
        return [*said, "Nothing is lost."]
    if report.unread:
        said.append(f"Some rows could not be read of: {', '.join(sorted(report.unread))}.")
    for table, count in sorted(report.orphans.items()):
        said.append(
            f"{counted(count, 'row')} of {table} left out, because what they belong to is lost."
        )
    if report.shortened:
        such = ", ".join(report.examples)
        said.append(f"{counted(report.shortened, 'conversation')} lost messages: {such}.")
        said.append("Import their source again to have them whole.")
    return said
