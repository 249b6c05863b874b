"""`workbench run success` and `workbench run tag`: probes fitted to what a person said of some conversations."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import NotFound
from engine.base.number_format import counted, figure, figure_range, percent_range, probability
from engine.base.text import one_line
from engine.conversations.filters import Term
from engine.opener.open_project import OpenProject
from engine.questions.records.example_probes import (
    LEAST_OF_EACH,
    NOT,
    SUCCESS,
    ExampleProbe,
    ExampleProbeChange,
    Proposed,
)
from workbench.arguments import PROJECT, argument, positive, share, switch, takes
from workbench.result import Result

NEXT = argument(
    "--next",
    type=positive,
    default=10,
    metavar="N",
    help="list the N most informative conversations to judge next (default: 10)",
)


@takes(
    PROJECT,
    switch("--use", "put the newly fitted probabilities in force"),
    NEXT,
)
def run_success(arguments: argparse.Namespace) -> Result:
    """Fits a probability of success to the verdicts; the completeness scores stay as they are."""
    with OpenProject(Path(arguments.project)) as workspace:
        probes = workspace.example_probes
        probe = probes.fit(SUCCESS)
        if arguments.use:
            probes.take_over()
        change, in_force = probes.change(), probes.success_in_force()
        following = probes.next(SUCCESS, arguments.next)
    document = {
        **asdict(probe),
        "change": None if change is None else {"up": change.up, "down": change.down},
        "next": [asdict(row) for row in following],
    }
    lines = _lines(probe, "complete", "incomplete", "succeeded")
    if in_force is None:
        lines.append(f"not in force       {LEAST_OF_EACH} verdicts of each kind are needed")
    elif not in_force.tells:
        lines.append(
            "at chance          no list shows these probabilities until more verdicts tell"
        )
        lines.append("                   the two apart")
    elif change is not None and change.then.marks != change.now.marks:
        lines.append(f"not in force       {_change_text(change)}; --use takes it over")
    else:
        lines.append("in force           the success column, `success<.3` and `--sort success`")
    return Result(lines + _next_lines(following), document)


@takes(
    PROJECT,
    argument("tag", help="a tag that some conversations have"),
    argument(
        "--threshold",
        type=share,
        metavar="P",
        help="predict the tag from this probability on (default: the last one, at first .5)",
    ),
    NEXT,
)
def run_tag(arguments: argparse.Namespace) -> Result:
    """Fits a probe to the conversations that have a tag, and predicts the tag for others; tags nothing.

    Raises:
        UsageError: No conversation has the tag.
    """
    tag = arguments.tag
    with OpenProject(Path(arguments.project)) as workspace:
        known = dict(workspace.conversations.tags())
        if tag not in known:
            tags = ", ".join(one_line(name, 40) for name in known) or "none"
            raise NotFound(f"No conversation has the tag “{tag}”.", f"Tags: {tags}.")
        probe = workspace.example_probes.fit(tag, arguments.threshold)
        following = workspace.example_probes.next(tag, arguments.next)
    name = one_line(tag, 40)
    lines = _lines(
        probe, f"tagged {name}", f"tagged {NOT}{name}, or judged without it", "predicted"
    )
    if probe.test is not None:
        term = Term("tag", ":", (f"{tag}?",))
        lines.append(
            f"filter             {one_line(str(term), 60)} finds what is predicted and not tagged"
        )
    document = {**asdict(probe), "next": [asdict(row) for row in following]}
    return Result(lines + _next_lines(following), document)


def _lines(probe: ExampleProbe, yes: str, no: str, called: str) -> list[str]:
    test = probe.test
    if test is None:
        return [
            f"examples           {probe.marks}; two of each kind are needed:",
            f"                   {yes}; and {no}",
        ]
    doubt = "" if test.enough else f"; fewer than {LEAST_OF_EACH} of a kind, so this says little"
    area = test.auroc
    lines = [
        f"examples           {test.positive} {yes}, {test.negative} {no}",
        f"told apart         AUROC {figure(area.value)} ({figure_range(area.low, area.high)}), each"
        f" by a probe that did not see it{doubt}",
        f"agreement          {test.agreement.part} of {test.agreement.of} examples at threshold"
        f" {figure(probe.threshold)}",
    ]
    if test.precision is not None:
        share_of = test.precision
        lines.append(
            f"precision          {share_of.part} of {share_of.of}"
            f" ({percent_range(share_of.low, share_of.high)})"
        )
    lines.append(
        f"{called:<18} {test.above:,} of {test.conversations:,}; {test.proposed:,} of them not examples yet"
    )
    rate = test.rate.corrected
    if rate is not None:
        lines.append(
            f"share of all       {rate.value:.0%} ({percent_range(rate.low, rate.high)}), corrected"
            " for the probe's errors"
        )
    elif test.rate.why:
        lines.append(f"share of all       – {test.rate.why}")
    return lines


def _change_text(change: ExampleProbeChange) -> str:
    """What newer verdicts would change, in words."""
    text = f"{change.up:,} would come above the threshold, {change.down:,} below"
    before, after = change.now.test, change.then.test
    if before is None or after is None:
        return text
    return f"{text}; AUROC {figure(before.auroc.value)} -> {figure(after.auroc.value)}"


def _next_lines(rows: Sequence[Proposed]) -> list[str]:
    if not rows:
        return []
    lines = [f"to judge next      {counted(len(rows), 'conversation')}, the most informative first"]
    return lines + [f"  {probability(row.p)}  {one_line(row.external_id, 60)}" for row in rows]
