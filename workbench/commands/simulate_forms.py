"""`workbench simulate forms`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.number_format import figure
from engine.records.simulation import PlayRow
from engine.services.simulation.forms import (
    KIND,
    FormsChoice,
    dummies,
    forms_simulation,
    load_forms,
    load_profiles,
    write_run,
)
from engine.services.simulation.simulations import ProjectSimulations, Simulation
from engine.services.workspace import Workspace
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.run import VARIANTS
from engine.simulate.forms.table import FormRow, table_of
from workbench.commands.narration import Result, narrate
from workbench.commands.options import not_negative, positive
from workbench.commands.playing import add_common, exit_code, played, read_common

LEFT_OUT = frozenset({"filled", "dialogue", "interactions", "information", "manager", "chunks"})
"""Parts of a run's result that are no figures."""


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    add_common(parser)
    parser.add_argument(
        "--form",
        action="append",
        metavar="FORM",
        help="ss5, epa, med, inv or a JSON file; may be repeated (default: these four)",
    )
    parser.add_argument("--variant", choices=["modular", "baseline", "both"], default="both")
    parser.add_argument(
        "--profile",
        choices=["question", "run"],
        default="question",
        help="the user is another one for each question, or one for a run, who knows the answers (default: question)",
    )
    parser.add_argument(
        "--profiles", metavar="FILE", help="JSON list of users (default: ten users)"
    )
    parser.add_argument(
        "--dummies",
        nargs="+",
        metavar="MODULE",
        help="modules whose fallback answers at once, by the names of their prompts, or all",
    )
    parser.add_argument(
        "--high",
        type=not_negative,
        metavar="T",
        help="temperature of users and second calls (default: 0.2)",
    )
    parser.add_argument(
        "--grouping",
        type=positive,
        default=7,
        metavar="N",
        help="labels grouped at once (default: 7)",
    )
    parser.add_argument(
        "--follow-ups",
        type=positive,
        default=5,
        metavar="N",
        help="on one question, at most (default: 5)",
    )
    parser.add_argument(
        "--turns",
        type=positive,
        default=3,
        metavar="N",
        help="turns for each field, at most (default: 3)",
    )
    parser.add_argument(
        "--history",
        type=positive,
        default=4000,
        metavar="N",
        help="tokens the baseline keeps (default: 4000)",
    )
    parser.add_argument(
        "--files", metavar="DIR", help="also write each run as its source stores one"
    )


def simulate(arguments: argparse.Namespace) -> int:
    """Has forms filled in conversation, in a project that is created if needed, and prints the table of Hakimov et al.
    (2024).

    Raises:
        WorkbenchError: A model cannot be had, a file is no form, or files cannot be written.
    """
    options = read_common(arguments)
    choice = _choice(arguments)
    with Workspace(Path(arguments.project), create=True) as workspace:
        simulations = workspace.simulations()
        simulation = forms_simulation(simulations, choice, options)
        rows = played(workspace, simulation)
        ended = [row for row in rows if row.reason is None]
        if arguments.files:
            _write(simulations, simulation, ended, Path(arguments.files), choice.rules)
    table = table_of(row.result for row in ended)
    result = {
        "config": simulation.play.config_hash,
        "rows": [asdict(row) for row in table],
        "runs": [
            {"key": row.key, "conversation": row.conversation_id} | _figures(row) for row in ended
        ],
    }
    Result(lines_of(table), result).print(arguments.json)
    return exit_code(rows)


def lines_of(table: Sequence[FormRow]) -> list[str]:
    """The table as text."""
    lines = [
        f"{'form':<12}{'variant':<10}{'runs':>5}{'length':>8}{'turns':>7}{'reps':>7}{'Success':>9}"
        f"{'Efficiency':>12}{'Score':>7}  {'complete':<10}{'right':<18}ended"
    ]
    for row in table:
        right = "–"
        if row.right is not None:
            share = f" ({figure(row.right[0] / row.right[1])})" if row.right[1] else ""
            right = f"{row.right[0]:,} of {row.right[1]:,}{share}"
        ended = ", ".join(f"{reason} {count:,}" for reason, count in sorted(row.ended.items()))
        lines.append(
            f"{row.form:<12}{row.variant:<10}{row.runs:>5,}{row.fields:>8,}{row.turns:>7.1f}"
            f"{row.repetitions:>7.1f}{figure(row.success):>9}{figure(row.efficiency):>12}"
            f"{figure(row.score):>7}  {f'{row.complete:,} of {row.runs:,}':<10}{right:<18}{ended}"
        )
    return lines


def _choice(arguments: argparse.Namespace) -> FormsChoice:
    high = Rules().high if arguments.high is None else arguments.high
    rules = Rules(
        temperature=arguments.temperature or 0.0,
        high=high,
        grouping_size=arguments.grouping,
        follow_ups=arguments.follow_ups,
        turns_per_field=arguments.turns,
        dummies=dummies(arguments.dummies or ()),
        profile=arguments.profile,
        history_tokens=arguments.history,
    )
    return FormsChoice(
        load_forms(arguments.form or list(TOPICS)),
        load_profiles(Path(arguments.profiles) if arguments.profiles else None),
        VARIANTS if arguments.variant == "both" else (arguments.variant,),
        rules,
    )


def _figures(row: PlayRow) -> dict[str, Any]:
    """What of a run's result is a figure; its dialogue and its form are in the project."""
    return {name: value for name, value in row.result.items() if name not in LEFT_OUT}


def _write(
    simulations: ProjectSimulations,
    simulation: Simulation,
    rows: Sequence[PlayRow],
    folder: Path,
    rules: Rules,
) -> None:
    settings = {one.config_hash: one.models for one in simulations.settings(KIND)}
    models = settings.get(simulation.play.config_hash, {})
    for row in rows:
        write_run(folder, row, simulations.transcript(row.id), models, rules)
    narrate(f"Wrote {len(rows):,} runs into {folder}.")
