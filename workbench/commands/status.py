"""`workbench status`: what is in a project, and its runs."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.base.number_format import counted, probability
from engine.base.text import one_line
from engine.completeness.records.scores import DecisionRule
from engine.conversations.filters import ListQuery
from engine.conversations.tables import quarantine
from engine.opener.conversations import (
    Counts,
)
from engine.opener.open_project import OpenProject
from engine.project import runs
from engine.project.project import Project
from engine.project.records import RunRow
from workbench.commands.narration import print_json, print_text
from workbench.commands.options import add_filter, read_filter
from workbench.commands.scores import set_lines, sets_json


def status_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `status`."""
    parser.add_argument("project")
    add_filter(parser)


def status(arguments: argparse.Namespace) -> int:
    """Prints the counts of a project, or of the conversations that match a filter, and its runs."""
    wanted = read_filter(arguments.filter)
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        counts = workspace.conversations.counts(ListQuery(wanted) if wanted else None)
        rule = workspace.conversations.rule()
        with workspace.project.reading() as conn:
            history = _with_interrupted(runs.all_runs(conn), workspace.project)
            quarantined = quarantine.rows(conn, limit=20)
        sets = workspace.score_sets.all()
        shared = workspace.conversations.shared_text()
        if arguments.json:
            print_json(
                {
                    "project": str(workspace.project.path),
                    "filter": str(wanted) or None,
                    **counts_json(counts, rule),
                    **sets_json(sets),
                    "sources": workspace.conversations.sources(),
                    "shared_text": [
                        {
                            "role": block.role, "conversations": block.conversations,
                            "of": shared.looked_at, "text": block.text,
                        }
                        for block in shared.shown
                    ],
                    "verdicts": {str(k): n for k, n in workspace.triage.tally().items()},
                    "runs": [
                        {
                            "id": run.id, "stage": run.stage, "state": run.state,
                            "config_hash": run.config_hash, "started_at": run.started_at,
                            "finished_at": run.finished_at, "done": run.done, "total": run.total,
                            "message": run.message,
                        }
                        for run in history
                    ],
                    "quarantine": [
                        {"source": q.source, "line": q.line, "reason": q.reason}
                        for q in quarantined
                    ],
                }
            )  # fmt: skip
            return 0
        print_text("\n".join([headline(counts, rule), *set_lines(sets)]))
        for block in shared.shown:
            print_text(
                f"  shared: {block.conversations:,} of {shared.looked_at:,}, {block.role}:"
                f" {one_line(block.text, 100)}"
            )
        for row in quarantined:
            print_text(
                f"  quarantined: {one_line(row.source)}:{row.line or ''} {one_line(row.reason)}"
            )
        for run in history:
            message = one_line(run.message or "")
            print_text(f"  run {run.id} {run.stage} {run.state} {run.started_at[:16]} {message}")
    return 0


def _with_interrupted(many: list[RunRow], project: Project) -> list[RunRow]:
    """The runs; one recorded as running is interrupted when no process writes the project."""
    if not any(run.state == "running" for run in many) or project.is_written():
        return many
    return [replace(run, state="interrupted") if run.state == "running" else run for run in many]


def headline(counts: Counts, rule: DecisionRule) -> str:
    """Counts, and on a second line where there are scores `rate_line`."""
    text = (
        f"{counted(counts.conversations, 'conversation')}, {counted(counts.messages, 'message')},"
        f" {counted(counts.duplicates, 'duplicate')}, {counts.quarantined:,} quarantined"
    )
    return f"{text}\n{rate_line(counts, rule)}" if counts.scored else text


def rate_line(counts: Counts, rule: DecisionRule) -> str:
    """The rate of complete conversations with its interval, what counts as one, how many are near it, and coverage."""
    rate = counts.rate
    if rate is None:
        return "nothing is scored"
    near = f"; {counts.borderline:,} within {probability(rule.band)} of it" * bool(rule.band)
    return (
        f"{rate.value:.0%} complete ({rate.low:.0%} to {rate.high:.0%}): {rate.part:,} of {rate.of:,}"
        f" have a score of {probability(rule.threshold)} or more{near}"
        f" ({counts.scored / counts.conversations:.0%} scored)"
    )


def counts_json(counts: Counts, rule: DecisionRule) -> dict[str, Any]:
    """Counts as JSON, with the coverage of the scores, the rate of complete conversations and the rule behind it."""
    coverage = counts.scored / counts.conversations if counts.conversations else None
    rate = counts.rate
    return {
        "counts": asdict(counts),
        "scored": counts.scored,
        "coverage": coverage,
        "rate": rate and {"value": rate.value, "low": rate.low, "high": rate.high},
        "rule": asdict(rule),
    }
