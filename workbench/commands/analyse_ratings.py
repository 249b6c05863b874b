"""`workbench analyse ratings`: what a model says of users with profiles, in the fields of RecLLMSim."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound
from engine.conversations.filters import ListQuery
from engine.conversations.tables.truth import truth_by_conversation
from engine.opener.open_project import OpenProject
from engine.questions.rating_scales import RATING
from engine.simulate.service.ratings import (
    PARTS,
    AgreementRow,
    LabelRow,
    label_rows,
    rated_by_turns,
    rating_agreement,
    rating_simulation,
    tag_ratings,
)
from workbench.commands.analyse import turn_json, turn_lines
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, add_labelling, positive, read_filter
from workbench.commands.playing import exit_code, played, read_options
from workbench.commands.report_text import cell_lines


def ratings_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `ratings`."""
    parser.add_argument("project")
    parser.add_argument(
        "--part", action="append", choices=list(PARTS), help="may be repeated (default: all four)"
    )
    add_labelling(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.add_argument("--seed", type=int, default=0, help="seed of the replies (default: 0)")
    parser.add_argument(
        "--tag",
        action="store_true",
        help="also tag each conversation with its ratings, such as `rating.Diversity.2`, for filters",
    )
    add_filter(parser)


def ratings(arguments: argparse.Namespace) -> int:
    """Annotates what was not annotated yet, and prints ratings, their means by turns, and agreements.

    Raises:
        UsageError: Nothing matches.
        WorkbenchError: A model cannot be had.
    """
    parts = tuple(dict.fromkeys(arguments.part or PARTS))
    with OpenProject(Path(arguments.project)) as workspace:
        store = workspace.conversations
        simulation = rating_simulation(
            workspace.simulation_runs,
            workspace.project,
            store.ids(ListQuery(read_filter(arguments.filter))),
            parts,
            read_options(arguments),
        )
        scenarios = simulation.play.scenarios
        if not scenarios:
            raise NotFound(
                "In no conversation that matches does a user speak.", "Leave out --filter."
            )
        rows = played(workspace, simulation)
        over = [row for row in rows if row.reason is None]
        annotated = {int(row.result["conversation"]) for row in over}
        if arguments.tag and "ratings" in parts:
            settings = {one.config_hash: one.models for one in workspace.simulation_runs.settings()}
            judge = settings.get(simulation.play.config_hash, {}).get("judge", "a model")
            given = tag_ratings(workspace.project, over, judge)
            narrate(f"Gave {given:,} tags; `--filter tag:rating.Diversity.2` finds them.")
        with workspace.project.reading() as conn:
            truths = {key: truth for key, truth in truth_by_conversation(conn) if key in annotated}
        listed = store.rows(sorted(annotated))
    labels = label_rows(over) if "ratings" in parts else []
    turns = rated_by_turns(over, {row.id: row.turns for row in listed}) if labels else []
    agreements = rating_agreement(over, truths, {row.id: row.tags for row in listed})
    lines: list[str] = []
    if labels:
        lines += [*_label_lines(labels), "", *turn_lines(turns)]
    if agreements:
        lines += ["", *_agreement_lines(agreements)]
    names = {row.id: row.external_id for row in listed}
    result: dict[str, Any] = {
        "config": simulation.play.config_hash,
        "labels": [asdict(row) for row in labels],
        "turns": [turn_json(row) for row in turns],
        "agreement": [_flat_agreement(row) for row in agreements],
        "conversations": [
            {"id": names[int(row.result["conversation"])]} | _annotations(row.result)
            for row in over
        ],
    }
    Result(
        lines or [f"Annotated {len(over):,}; --json prints what was said of each."], result
    ).print(arguments.json)
    return exit_code(rows)


def _label_lines(rows: Sequence[LabelRow]) -> list[str]:
    return cell_lines(
        [("schema", "text"), ("label", "text"), ("labelled", "text"), ("labels", "text")],
        [
            (
                row.schema, row.label, f"{row.labelled:,} of {row.asked:,}",
                ", ".join(f"{name} {count:,}" for name, count in row.counts.items()),
            )
            for row in rows
        ],
    )  # fmt: skip


def _agreement_lines(rows: Sequence[AgreementRow]) -> list[str]:
    return cell_lines(
        [
            ("schema", "text"), ("label", "text"), ("against", "text"), ("n", "count"),
            ("accuracy", "interval"), ("frequent", "share"), ("kappa", "interval"), ("weighted", "share"),
        ],
        [
            (
                row.schema, row.label, f"{row.one} / {row.other}", row.found.count,
                row.found.accuracy, row.found.frequent, row.found.kappa,
                row.found.weighted and row.found.weighted.value,
            )
            for row in rows
        ],
    )  # fmt: skip


def _flat_agreement(row: AgreementRow) -> dict[str, Any]:
    """Returns an agreement as JSON values."""
    named = {"schema": row.schema, "label": row.label, "one": row.one, "other": row.other}
    return {**named, **asdict(row.found)}


def _annotations(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the model said of a conversation, in the fields of the data set."""
    fields = {
        name: value for name, value in result.items() if name not in ("conversation", "labels")
    }
    ratings = result["labels"].get(RATING, {}).get("final")
    return fields if ratings is None else {RATING: ratings, **fields}
