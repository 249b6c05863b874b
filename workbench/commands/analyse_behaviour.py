"""`workbench analyse behaviour`: how users ask, as a model labels it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound
from engine.conversations.tables.truth import truth_by_conversation
from engine.opener.open_project import OpenProject
from engine.simulate.profiles.labelling import (
    AgreementRow,
    LabelRow,
    agreement_rows,
    behaviour_simulation,
    label_rows,
    tag_labels,
)
from engine.simulate.recsim.behaviour import SCHEMAS
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, add_labelling, positive, read_filter
from workbench.commands.playing import exit_code, played, read_options
from workbench.commands.report_text import cell_lines


def behaviour_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `behaviour`."""
    parser.add_argument("project")
    parser.add_argument(
        "--schema",
        action="append",
        choices=["strategy", "strategy_V2", "strategy_V3"],
        help="may be repeated (default: all three)",
    )
    add_labelling(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.add_argument("--seed", type=int, default=0, help="seed of the runs (default: 0)")
    parser.add_argument(
        "--tag",
        action="store_true",
        help="also tag each conversation with its labels, such as `strategy_V2.order.Depth`, for filters",
    )
    add_filter(parser)


def behaviour(arguments: argparse.Namespace) -> int:
    """Labels what was not labelled yet, and prints the labels and their agreement with imported ones.

    Raises:
        UsageError: Nothing matches.
        WorkbenchError: A model cannot be had.
    """
    wanted = read_filter(arguments.filter)
    schemas = tuple(dict.fromkeys(arguments.schema or SCHEMAS))
    options = read_options(arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        simulation = behaviour_simulation(
            workspace.simulation_runs, workspace.project, wanted, schemas, options
        )
        if not simulation.play.scenarios:
            raise NotFound(
                "In no conversation that matches does a user speak.", "Leave out --filter."
            )
        rows = played(workspace, simulation)
        labelled = [row for row in rows if row.reason is None]
        asked = {int(row.result["conversation"]) for row in labelled}
        if arguments.tag:
            config = simulation.play.config_hash
            models = {one.config_hash: one.models for one in workspace.simulation_runs.settings()}
            judge = models.get(config, {}).get("judge", "a model")
            given = tag_labels(workspace.project, labelled, schemas, judge)
            narrate(f"Gave {given:,} tags; `--filter tag:strategy_V2.order.Depth` finds them.")
        with workspace.project.reading() as conn:
            truths = {key: truth for key, truth in truth_by_conversation(conn) if key in asked}
    labels = label_rows(labelled, schemas)
    agreements = agreement_rows(labelled, truths, schemas)
    if not agreements:
        narrate("None of these conversations came with labels to compare with.")
    _result(labels, agreements, simulation.play.config_hash).print(arguments.json)
    return exit_code(rows)


def _result(labels: Sequence[LabelRow], agreements: Sequence[AgreementRow], config: str) -> Result:
    lines = label_lines(labels)
    if agreements:
        lines += ["", *agreement_lines(agreements)]
    result: dict[str, Any] = {
        "config": config,
        "labels": [asdict(row) for row in labels],
        "agreement": [flat_agreement(row) for row in agreements],
    }
    return Result(lines, result)


def label_lines(rows: Sequence[LabelRow]) -> list[str]:
    """The table of labels that a model gave."""
    return cell_lines(
        [
            ("schema", "text"), ("label", "text"), ("labelled", "text"),
            ("all runs alike", "share"), ("labels", "text"),
        ],
        [
            (
                row.schema, row.label, f"{row.labelled:,} of {row.asked:,}", row.unanimous,
                ", ".join(f"{name} {count:,}" for name, count in row.counts.items()),
            )
            for row in rows
        ],
    )  # fmt: skip


def agreement_lines(rows: Sequence[AgreementRow]) -> list[str]:
    """The table of agreements."""
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


def flat_agreement(row: AgreementRow) -> dict[str, Any]:
    """An agreement as JSON values."""
    named = {"schema": row.schema, "label": row.label, "one": row.one, "other": row.other}
    return {**named, **asdict(row.found)}
