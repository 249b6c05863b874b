"""`workbench goals`: what the goals screen and the merge desk do to groups, as commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted, figure
from engine.base.text import one_line, short_name
from engine.conversations.filters import NO_FILTER
from engine.goals.records import ClusteringSummary, GoalDecision, GoalGroup, Proposal, themes_of
from engine.goals.service.groups import GoalService
from engine.goals.service.json_lines import decision_line
from engine.opener.open_project import OpenProject
from engine.questions.records import Agreement
from workbench.arguments import (
    FILTER,
    PROJECT,
    argument,
    number,
    only_with,
    positive,
    several,
    share,
    switch,
    takes,
)
from workbench.command_result import CommandResult
from workbench.narration import run_stages

NO_GROUP = "none"
"""Stands for no group, where conversations are moved out of all."""

_GROUP_HELP = "label, id or number of a group, in this order (`workbench goals list`)"
"""Help of every argument that names a group."""

_GROUP, _OTHER = argument("group", help=_GROUP_HELP), argument("other", help=_GROUP_HELP)
"""Arguments that name a group, and a second one."""


@takes(PROJECT, FILTER)
def list_groups(arguments: argparse.Namespace) -> CommandResult:
    """Lists the goals under their themes, the largest first: number, id, size, share and label; and how often models
    agree with you."""
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        shown = workspace.merge_review.goals.shown()
        groups = workspace.merge_review.goals.groups(arguments.filter)
        agreements = workspace.merge_review.agreements() if groups else {}
    lines = [f"{shown.clustering.title}:"] if shown and shown.clustering.noun == "reason" else []
    themes = themes_of(groups)
    width = max((len(theme.as_group.failures) for theme in themes), default=0)

    def figures(group: GoalGroup) -> str:
        """Returns size and share of a group, and how many failed where that is known of any."""
        failed = (
            f"  {group.failures:>{width}} {'failed' if group.failures else '':6}" if width else ""
        )
        return f"{group.size:>8,}  {group.share:>4.0%}{failed}  "

    for theme in themes:
        if not theme.single:
            lines.append(f"{'':14}{figures(theme.as_group)}- {one_line(theme.label)}")
        lines += [
            f"{group.number:>4}  {group.id:<8}{figures(group)}"
            + f"{'' if theme.single else '    '}{one_line(group.label)}{' (pinned)' * group.pinned}"
            for group in theme.goals
        ]
    return CommandResult(
        [*lines, *_agreement_lines(agreements)]
        or [
            "No group has a conversation that matches."
            if arguments.filter
            else "No groups. `workbench run cluster PROJECT` makes them."
        ],
        {
            "groups": list(map(asdict, groups)),
            "themes": [
                {
                    "label": theme.label,
                    "size": theme.as_group.size,
                    "share": theme.as_group.share,
                    "groups": [group.id for group in theme.goals],
                }
                for theme in themes
                if not theme.single
            ],
            "agreement": _agreement_json(agreements),
        },
    )


def _agreement_lines(agreements: Mapping[tuple[str, str], Agreement]) -> list[str]:
    """Returns how often answers on pairs agree with the decisions of people, by model and prompt, in words."""
    return [
        f"{short_name(model)}{f', asked with {prompt},' if prompt else ''} agrees with your decisions:"
        f" {agreement.text}"
        for (model, prompt), agreement in agreements.items()
    ]


def _agreement_json(agreements: Mapping[tuple[str, str], Agreement]) -> list[dict[str, Any]]:
    """Returns what `_agreement_lines` returns as JSON values."""
    return [
        {"model": model, "prompt": prompt, **asdict(agreement)}
        for (model, prompt), agreement in agreements.items()
    ]


@takes(
    PROJECT,
    number("--show", "open the clustering N instead"),
)
def clusterings(arguments: argparse.Namespace) -> CommandResult:
    """Lists the clusterings, oldest first; with --show opens one of them first.

    Raises:
        NotFound: There is no such clustering.
    """
    with OpenProject(Path(arguments.project), read_only=arguments.show is None) as workspace:
        if arguments.show is not None:
            workspace.merge_review.goals.show(arguments.show)
        rows = workspace.merge_review.goals.clusterings()
        shown = workspace.merge_review.goals.shown()
    key = None if shown is None else shown.clustering.id
    lines = [_clustering_line(row, is_open=row.clustering.id == key) for row in rows]
    if rows:
        lines.append(
            "* open: what `workbench goals` and the goals screen work on; --show N opens another"
        )
    else:
        lines.append("No clusterings. `workbench run cluster PROJECT` makes one.")
    return CommandResult(lines, {"shown": key, "clusterings": list(map(_clustering_json, rows))})


def _clustering_line(row: ClusteringSummary, *, is_open: bool) -> str:
    """Returns a clustering as a line of text; a star marks the one that is open."""
    clustering = row.clustering
    made_at = clustering.created_at[:16].replace("T", " ")
    return (
        f"{'*' if is_open else ' '} {clustering.id:>2}  {made_at}  {clustering.text},"
        f" {clustering.embedder}, k {clustering.k}, seed {clustering.seed}{', as in the paper' * clustering.paper}:"
        f" {counted(row.groups, 'group')} of {counted(clustering.conversations, 'conversation')}"
    )


def _clustering_json(row: ClusteringSummary) -> dict[str, Any]:
    """Returns a clustering as JSON values, without the configurations of what it was made from."""
    made = row.clustering
    return {
        "id": made.id,
        "config_hash": made.config_hash,
        "run_id": made.run_id,
        "created_at": made.created_at,
        "text": made.text,
        "embedder": made.embedder,
        "paper": made.paper,
        "k": made.k,
        "seed": made.seed,
        "conversations": made.conversations,
        "groups": row.groups,
        "outliers": made.outliers,
        "without": made.without,
        "novel": row.novel,
    }


@takes(PROJECT, _GROUP, argument("label", help="the new label"))
def rename(arguments: argparse.Namespace) -> CommandResult:
    """Gives a group another label."""
    return _decide(arguments, lambda review, group: review.rename(group, arguments.label))


@takes(PROJECT, _GROUP, switch("--off", "unpin it"))
def pin(arguments: argparse.Namespace) -> CommandResult:
    """Pins a group, which is then not proposed for a merge and keeps its label, or unpins it."""
    return _decide(arguments, lambda review, group: review.pin(group, on=not arguments.off))


@takes(
    PROJECT,
    argument("--group", help=_GROUP_HELP),
    argument(
        "--under", metavar="THEME", help=f"with --group: label of its theme; {NO_GROUP} for none"
    ),
)
def themes(arguments: argparse.Namespace) -> CommandResult:
    """Puts the goals under themes anew; with --group puts one under a theme, where it stays.

    Raises:
        UsageError: One of --group and --under is given without the other.
    """
    if (arguments.group is None) != (arguments.under is None):
        raise UsageError("--group and --under belong together.", "Give both, or none.")
    with OpenProject(Path(arguments.project)) as workspace:
        if arguments.group is None:
            run_stages(workspace, [workspace.goal_stages().theme_stage()])
        else:
            group = resolve(workspace.merge_review.goals.groups(), arguments.group)
            theme = "" if arguments.under == NO_GROUP else arguments.under
            workspace.merge_review.place([group.id], theme)
    return list_groups(argparse.Namespace(project=arguments.project, filter=NO_FILTER))


@takes(
    PROJECT,
    _GROUP,
    _OTHER,
    argument(
        "--label",
        help="label of the merged group (default: the proposed one, or that of the larger)",
    ),
)
def merge(arguments: argparse.Namespace) -> CommandResult:
    """Merges two groups."""
    return _decide(
        arguments,
        lambda review, group, other: review.merge(review.pair(group, other), arguments.label),
    )


@takes(PROJECT, _GROUP, _OTHER, switch("--never", "forbid the merge in later clusterings too"))
def apart(arguments: argparse.Namespace) -> CommandResult:
    """Refuses a merge: the two are not proposed again."""
    return _decide(
        arguments,
        lambda review, group, other: review.apart(review.pair(group, other), never=arguments.never),
    )


@takes(PROJECT, _GROUP, number("--parts", "parts that k-means makes", 2))
def split(arguments: argparse.Namespace) -> CommandResult:
    """Splits a group by k-means; phrases of their members label the parts.

    Raises:
        UsageError: There is no such group, or k-means finds no two parts.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        review = workspace.merge_review
        group = resolve(review.goals.groups(), arguments.group)
        parts = review.split_preview(group.id, arguments.parts)
        review.split(group.id, [part.conversation_ids for part in parts])
        groups = review.goals.groups()
    sizes = [part.size for part in parts]
    sizes_text = ", ".join(f"{size:,}" for size in sizes)
    return CommandResult(
        [f"“{one_line(group.label)}” was split into parts of {sizes_text} conversations."],
        {"parts": sizes, "groups": len(groups)},
    )


@takes(
    PROJECT,
    argument("group", help=f"{_GROUP_HELP}; {NO_GROUP} takes them out of all groups"),
    argument("conversations", nargs="+", metavar="ID", help="ids of conversations"),
)
def move(arguments: argparse.Namespace) -> CommandResult:
    """Moves conversations to a group, in one act."""
    with OpenProject(Path(arguments.project)) as workspace:
        goals = workspace.merge_review.goals
        target = None if arguments.group == NO_GROUP else resolve(goals.groups(), arguments.group)
        keys = [conversation(workspace, name) for name in arguments.conversations]
        decision = workspace.merge_review.move(keys, None if target is None else target.id)
        return _decision_result(decision, goals)


@takes(
    PROJECT,
    argument(
        "--act",
        type=positive,
        metavar="N",
        help="take back act N, also of the rule or a model (`export decisions` lists the acts)",
    ),
)
def undo(arguments: argparse.Namespace) -> CommandResult:
    """Takes your newest decision on groups back, or another act.

    Raises:
        NotYet: There is nothing to take back, or nothing was clustered yet.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        review = workspace.merge_review
        if arguments.act is None:
            decision, nothing = review.undo(), "There is nothing of yours to undo."
        else:
            decision = review.undo(arguments.act)
            nothing = f"There is no act {arguments.act:,} in force."
        if decision is None:
            raise NotYet(nothing, "`workbench export PROJECT decisions` lists the acts.")
        return _decision_result(decision, review.goals)


@takes(
    PROJECT,
    number("--limit", "list at most N", 10),
    switch("--ask", "first ask a model about likely pairs on which it was not asked yet"),
    argument(
        "--model",
        metavar="M",
        help="with --ask: name or path of a model that follows instructions (default: what `models use` chose)",
    ),
)
def proposals(arguments: argparse.Namespace) -> CommandResult:
    """Lists the next pairs of groups that may be one goal, with the evidence; nothing is decided.

    Raises:
        NotYet: Nothing was clustered yet.
        UsageError: There is no such model, or --model is named without --ask.
    """
    only_with(arguments, "--ask", arguments.ask, "model")
    with OpenProject(Path(arguments.project), read_only=not arguments.ask) as workspace:
        review = workspace.merge_review
        if arguments.ask:
            run_stages(workspace, workspace.goal_stages().ask_stages(arguments.model))
        pairs: list[Proposal] = []
        while len(pairs) < arguments.limit and (
            proposal := review.proposal([earlier.pair for earlier in pairs])
        ):
            pairs.append(proposal)
        progress, agreements = review.progress(), review.agreements()
        pairs_left = progress.left
    lines = [
        f"{pair.evidence.probability:>4.0%}  {pair.a.id} “{short_name(pair.a.label)}” ({pair.a.size:,})"
        f" and {pair.b.id} “{short_name(pair.b.label)}” ({pair.b.size:,});"
        f" labels {figure(pair.evidence.description_similarity)},"
        f" members {figure(pair.evidence.member_similarity)}"
        for pair in pairs
    ]
    lines += _agreement_lines(agreements)
    lines.append(
        f"{counted(pairs_left, 'pair')} left to decide; `workbench goals merge`, or `goals apart`."
    )
    if progress.to_review:
        decisions = counted(progress.to_review, "decision")
        lines.append(f"{decisions} of a model to review: `workbench goals review`.")
    return CommandResult(
        lines,
        {
            "left": pairs_left,
            "agreement": _agreement_json(agreements),
            "proposals": list(map(_proposal_json, pairs)),
        },
    )


def _proposal_json(pair: Proposal) -> dict[str, Any]:
    """Returns a proposal as an object; `decided` is the id of the decision of a model that is to be reviewed."""
    fields = asdict(pair)
    decision = fields.pop("reviewed_decision")
    return fields | {
        "evidence": pair.evidence.as_json(),
        "decided": None if decision is None else decision["id"],
    }


@takes(
    PROJECT,
    several("--agree", "agree with this decision"),
    several("--refuse", "decide otherwise: take this merge apart, or merge what was kept apart"),
)
def review(arguments: argparse.Namespace) -> CommandResult:
    """Lists the decisions of a model on pairs that no person reviewed, with its replies, and reviews those that are
    named by their numbers.

    Raises:
        NotFound: There is no such decision to review.
        NotYet: Nothing was clustered yet.
    """
    reviews = [(name, True) for name in arguments.agree]
    reviews += [(name, False) for name in arguments.refuse]
    with OpenProject(Path(arguments.project), read_only=not reviews) as workspace:
        service = workspace.merge_review
        for name, agrees in reviews:
            # Read anew each time: a refusal takes what builds on it out of the list.
            decision = next(
                (decision for decision in service.to_review() if str(decision.id) == name), None
            )
            if decision is None:
                raise NotFound(
                    f"There is no decision {name} to review.",
                    "`workbench goals review PROJECT` lists them.",
                )
            proposal = service.pair(*decision.sides)
            if (decision.kind == "merge") == agrees:
                service.merge(proposal)
            else:
                service.apart(proposal)
        decisions = service.to_review()
    lines = [
        f"{decision.id:>5}  {one_line(decision.text)}: {one_line((decision.evidence or {})['reason'])}"
        for decision in decisions
    ]
    lines.append(f"{counted(len(decisions), 'decision')} of a model to review.")
    return CommandResult(
        lines, {"reviewed": len(reviews), "decisions": list(map(decision_line, decisions))}
    )


@takes(
    PROJECT,
    argument(
        "--merge-above",
        required=True,
        type=share,
        metavar="P",
        help="merge all pairs with at least this probability",
    ),
)
def decide(arguments: argparse.Namespace) -> CommandResult:
    """Merges all undecided pairs above a probability as one act.

    Raises:
        NotYet: Nothing was clustered yet.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        review = workspace.merge_review
        pairs = review.above(arguments.merge_above)
        merged = review.merge_all(pairs, arguments.merge_above) if pairs else 0
        groups = len(review.goals.view().sizes)
    return CommandResult(
        [f"{counted(merged, 'pair')} merged. {counted(groups, 'group')} now."],
        {"merged": merged, "groups": groups},
    )


def _decide(arguments: argparse.Namespace, act: Callable[..., GoalDecision]) -> CommandResult:
    """Decides on the groups that are named, and returns what was decided.

    Args:
        act: Makes the decision; called with the service and the ids of the groups.

    Raises:
        UsageError: There is no such group, or several have this label.
    """
    with OpenProject(Path(arguments.project)) as workspace:
        goals = workspace.merge_review.goals
        groups = goals.groups()
        names = [arguments.group, *([arguments.other] if "other" in arguments else [])]
        group_ids = [resolve(groups, name).id for name in names]
        return _decision_result(act(workspace.merge_review, *group_ids), goals)


def _decision_result(decision: GoalDecision, goals: GoalService) -> CommandResult:
    """Returns what was decided, and how many groups there are now."""
    taken_back = "" if decision.active else " (taken back)"
    groups = len(goals.groups())
    line = {key: value for key, value in asdict(decision).items() if key != "parts"}
    return CommandResult(
        [f"{decision.text}{taken_back}. {counted(groups, 'group')} now."],
        {"decision": line, "groups": groups},
    )


def resolve(groups: Sequence[GoalGroup], name: str) -> GoalGroup:
    """Returns the group with this label, else that with this id, else that with this number: a label may be a number.

    Raises:
        UsageError: Several groups have this label.
        NotFound: There is no such group.
        NotYet: There are no groups.
    """
    folded = " ".join(name.split()).lower()
    named = (
        [group for group in groups if " ".join(group.label.split()).lower() == folded]
        or [group for group in groups if group.id == folded]
        or [group for group in groups if str(group.number) == folded]
    )
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(group.id for group in named)
        raise UsageError(f"Several groups have the label {name!r}.", f"Name one by its id: {ids}.")
    if not groups:
        raise NotYet("There are no groups yet.", "`workbench run cluster PROJECT` makes them.")
    raise NotFound(f"No group is {name!r}.", "`workbench goals list PROJECT` lists them.")


def conversation(workspace: OpenProject, name: str) -> int:
    """Returns the key of the conversation that was imported with this id.

    Raises:
        NotFound: No conversation has this name, or several have it.
    """
    keys = workspace.conversations.named(name)
    if len(keys) == 1:
        return keys[0]
    subject = "Several conversations have" if keys else "No conversation has"
    raise NotFound(f"{subject} the id {name!r}.", "`workbench list PROJECT` lists the ids.")
