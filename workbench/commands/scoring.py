"""`workbench run complete`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from engine.base.errors import UsageError
from engine.base.number_format import counted, duration
from engine.completeness.records.scores import Mode
from engine.completeness.records.scoring_request import (
    ScoringRequest,
)
from engine.completeness.service.sets import in_force
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from engine.training import adapter_in_use
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.options import add_filter, add_model, part_of, positive, read_filter
from workbench.commands.scores import set_lines, set_text, sets_json
from workbench.commands.status import counts_json, headline
from workbench.exits import DONE, WITH_GAPS


def request_from(arguments: argparse.Namespace) -> ScoringRequest:
    """The scoring run that was asked for on the command line.

    Raises:
        UsageError: An adapter was given with a mode that does not use it.
    """
    mode: Mode | None = arguments.mode
    if arguments.adapter and mode not in ("tuned", "probe", None):
        raise UsageError(
            "An adapter is for the modes `tuned` and `probe`.", "Leave out --mode, or --adapter."
        )
    return ScoringRequest(
        mode=mode,
        model=arguments.model,
        adapter=arguments.adapter or None,
        end_tag=arguments.end_tag,
        context=arguments.context,
        filter=read_filter(arguments.filter),
        held_out_by=arguments.held_out_by,
        limit=arguments.limit,
        part=arguments.part,
        tune=not arguments.no_tune,
        paper=arguments.paper,
        remaining=not arguments.no_remaining,
    )


def run_complete_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_complete`."""
    parser.add_argument("project")
    add_model(parser)
    parser.add_argument(
        "--mode",
        choices=get_args(Mode),
        help="how to score (default: probe where it is possible, else tuned with an adapter, else base)",
    )
    parser.add_argument(
        "--end-tag",
        help="text tag that a tuned model ends with (default: that of its adapter, else its end token)",
    )
    parser.add_argument(
        "--context", type=positive, help="longest log in tokens; longer ones are read in windows"
    )
    add_filter(parser)
    parser.add_argument(
        "--held-out-by", metavar="RUN", help="only what this training run was not trained on"
    )
    parser.add_argument(
        "--limit",
        type=positive,
        help="score only the first N conversations; --filter 'draw<.1' scores a tenth at random",
    )
    parser.add_argument(
        "--part",
        type=part_of,
        metavar="N/OF",
        help="read only the N-th of OF equal parts, for several machines that each have a copy of the project:"
        " `workbench merge` joins the copies, and `run complete` on the merged one does the rest",
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="as in Soroka et al.: what the model writes after a log decides, and is what remains;"
        " mode tuned with an adapter, else base",
    )
    parser.add_argument("--no-tune", action="store_true", help="use the model file as it is")
    parser.add_argument("--no-remaining", action="store_true", help="do not write remaining tasks")
    parser.add_argument("--estimate", action="store_true", help="estimate the cost and stop")


def run_complete(arguments: argparse.Namespace) -> int:
    """Scores what is not scored yet and writes the remaining tasks."""
    request = request_from(arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        run = workspace.scoring_runs.run(request)
        adapter = run.model.adapter
        if adapter and request.adapter is None:
            narrate(f"With the adapter {adapter}; --adapter takes another.")
        if arguments.estimate:
            estimate = workspace.scoring_runs.estimate(run)
            if arguments.json:
                print_json(asdict(estimate))
            else:
                print_text(estimate_text(estimate))
            return DONE
        if run.model.model.tokens_per_s:
            narrate(estimate_text(workspace.scoring_runs.estimate(run)))
        run_stages(workspace, run.stages)
        if request.part is not None:
            narrate(
                "`workbench merge` joins the parts; then `run complete` fits and writes the rest."
            )
            return DONE
        if adapter and request.adapter is not None:
            adapter_in_use.put(workspace.project, adapter)
        counts, rule = workspace.conversations.counts(), workspace.conversations.rule()
        sets = workspace.score_sets.all()
        made = next((one for one in sets if one.config_hash == run.config_hash), None)
        decided = workspace.score_sets.as_generated(run.config_hash) if request.paper else None
    now = in_force(sets)
    if arguments.json:
        told = {} if decided is None else {"as_generated": asdict(decided)}
        scored = {"scored_set": made and asdict(made)}
        print_json(counts_json(counts, rule) | scored | sets_json(sets) | told)
    else:
        lines = [headline(counts, rule), *set_lines(sets)]
        if decided is not None:
            lines.append(
                f"By what {decided.model} writes next: {decided.complete:,} complete (the end tag),"
                f" {decided.incomplete:,} incomplete"
            )
        print_text("\n".join(lines))
    if made is None or made is now:
        if counts.unscored:
            narrate(f"{counts.unscored:,} conversations are unscored; `export scores` says why.")
        return WITH_GAPS if counts.unscored else DONE
    stored = f"Stored beside the scores in force: set {made.number}, {set_text(made, sets)}."
    narrate(f"{stored}\n`workbench scores {arguments.project} --use {made.number}` shows them.")
    return WITH_GAPS if made.scored < counts.conversations else DONE


def estimate_text(estimate: Estimate) -> str:
    """An estimate in words."""
    if not estimate.items:
        return "Nothing is left to score."
    text = f"{counted(estimate.items, 'conversation')}, {estimate.tokens or 0:,} tokens"
    if estimate.seconds is None:
        return (
            f"{text}; the speed of {estimate.model} was not measured yet (`workbench models tune`)"
        )
    return f"{text}: about {duration(estimate.seconds)} with {estimate.model}"
