"""`workbench goals`: what the goals screen and the merge desk do to groups, as commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted, figure
from engine.base.text import one_line
from engine.conversations.filters import NO_FILTER
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    GoalGroup,
    MergeOrder,
    Proposal,
    themes_of,
)
from engine.goals.service.decision_import import import_decisions
from engine.goals.service.groups import GoalService
from engine.goals.service.results import decision_line
from engine.opener.open_project import OpenProject
from engine.questions.records import Agreement
from workbench.arguments import (
    FILTER,
    PROJECT,
    argument,
    number,
    one_of,
    positive,
    several,
    share,
    switch,
    takes,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import run_stages

NO_GROUP = "none"
"""Stands for no group, where conversations are moved out of all."""

_GROUP_HELP = "label, id or number of a group, in this order (`workbench goals list`)"
_GROUP, _OTHER = argument("group", help=_GROUP_HELP), argument("other", help=_GROUP_HELP)


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
    for theme in themes:
        if not theme.single:
            whole = theme.as_group
            lines.append(f"{'':14}{whole.size:>8,}  {whole.share:>4.0%}  - {one_line(theme.label)}")
        lines += [
            f"{group.number:>4}  {group.id:<8}{group.size:>8,}  {group.share:>4.0%}  "
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
        f"{one_line(model, 40)}{f', asked with {prompt},' if prompt else ''} agrees with your decisions:"
        f" {agreement.text}"
        for (model, prompt), agreement in agreements.items()
    ]


def _agreement_json(agreements: Mapping[tuple[str, str], Agreement]) -> list[dict[str, Any]]:
    """Returns the same as JSON values."""
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
        rows, shown = (
            workspace.merge_review.goals.clusterings(),
            workspace.merge_review.goals.shown(),
        )
    key = None if shown is None else shown.clustering.id
    lines = []
    for row in rows:
        made = row.clustering
        lines.append(
            f"{'*' if made.id == key else ' '} {made.id:>2}  {made.created_at[:16].replace('T', ' ')}  {made.text},"
            f" {made.embedder}, k {made.k}, seed {made.seed}{', as in the paper' * made.paper}:"
            f" {counted(row.groups, 'group')} of {counted(made.conversations, 'conversation')}"
        )
    if rows:
        lines.append(
            "* open: what `workbench goals` and the goals screen work on; --show N opens another"
        )
    else:
        lines.append("No clusterings. `workbench run cluster PROJECT` makes one.")
    return CommandResult(lines, {"shown": key, "clusterings": list(map(_clustering_json, rows))})


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
        goals = workspace.merge_review.goals
        _require_groups(goals)
        if arguments.group is None:
            run_stages(workspace, [workspace.goal_stages().theme_stage()])
        else:
            group = resolve(goals.groups(), arguments.group)
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


@takes(
    PROJECT,
    _GROUP,
    one_of(
        number("--parts", "parts that k-means makes", 2),
        argument(
            "--members",
            nargs="+",
            metavar="ID",
            help="split off these conversations as one group instead",
        ),
    ),
    switch("--dry-run", "say what the parts would be and store nothing"),
)
def split(arguments: argparse.Namespace) -> CommandResult:
    """Splits a group by k-means, or splits named members off it; phrases of their members label the parts.

    Raises:
        UsageError: There is no such group, it does not have one of the members, or nothing would be split off.
    """
    with OpenProject(Path(arguments.project), read_only=arguments.dry_run) as workspace:
        review = workspace.merge_review
        goals = review.goals
        group = resolve(goals.groups(), arguments.group)
        if arguments.members:
            ids = {conversation(workspace, name) for name in arguments.members}
            if not ids.issubset(member.conversation_id for member in goals.members(group.id)):
                raise UsageError(
                    f"“{one_line(group.label)}” does not have all of these conversations.",
                    "`workbench goals move` moves conversations of other groups.",
                )
            parts = [tuple(sorted(ids))]
            sizes = [len(ids), group.size - len(ids)]
        else:
            preview = review.split_preview(group.id, arguments.parts)
            parts, sizes = [part.conversation_ids for part in preview], [p.size for p in preview]
        if len([size for size in sizes if size]) < 2:
            raise UsageError("A split takes two parts.", "Choose some of the members, not all.")
        if not arguments.dry_run:
            review.split(group.id, parts)
        groups = goals.groups()
    sizes_text = ", ".join(f"{size:,}" for size in sizes)
    would = "would be split" if arguments.dry_run else "was split"
    return CommandResult(
        [f"“{one_line(group.label)}” {would} into parts of {sizes_text} conversations."],
        {"parts": sizes, "dry_run": arguments.dry_run, "groups": len(groups)},
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
    switch("--redo", "give again what was taken back last"),
    argument(
        "--act",
        type=positive,
        metavar="N",
        help="take back act N, also of the rule or a model (`export decisions` lists the acts)",
    ),
)
def undo(arguments: argparse.Namespace) -> CommandResult:
    """Takes your newest decision on groups back, or another act, or gives it again."""
    with OpenProject(Path(arguments.project)) as workspace:
        review = workspace.merge_review
        goals = review.goals
        _require_groups(goals)
        if arguments.redo:
            decision, nothing = review.redo(), "There is nothing to redo."
        elif arguments.act is None:
            decision, nothing = review.undo(), "There is nothing of yours to undo."
        else:
            decision = review.undo(arguments.act)
            nothing = f"There is no act {arguments.act:,} in force."
        if decision is None:
            raise NotYet(nothing, "`workbench export PROJECT decisions` lists the acts.")
        return _decision_result(decision, goals)


@takes(
    PROJECT,
    number("--limit", "list at most N", 10),
    argument("--order", choices=get_args(MergeOrder), help="which pairs come first, from now on"),
    argument(
        "--least-similarity",
        type=float,
        metavar="S",
        help="propose only pairs whose labels are at least this similar (-1 to 1), from now on",
    ),
    switch("--ask", "first ask a model about likely pairs on which it was not asked yet"),
    argument(
        "--model",
        metavar="M",
        help="with --ask: name or path of a model (default: what `models use` chose, else the built-in one)",
    ),
)
def proposals(arguments: argparse.Namespace) -> CommandResult:
    """Lists the next pairs of groups that may be one goal, with the evidence; nothing is decided.

    Raises:
        UsageError: Nothing was clustered yet, the similarity is not from -1 to 1, there is no such model, or nothing is
            asked of it.
    """
    order, similarity = arguments.order, arguments.least_similarity
    changes = arguments.ask or order is not None or similarity is not None
    if arguments.model is not None and not arguments.ask:
        raise UsageError("--model is for --ask.", "Add --ask.")
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        review = workspace.merge_review
        _require_groups(workspace.merge_review.goals)
        if order is not None:
            review.set_order(order)
        if similarity is not None:
            review.set_least_similarity(similarity)
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
        f"{pair.evidence.probability:>4.0%}  {pair.a.id} “{one_line(pair.a.label, 40)}” ({pair.a.size:,})"
        f" and {pair.b.id} “{one_line(pair.b.label, 40)}” ({pair.b.size:,});"
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
            "proposals": [
                {
                    **asdict(pair),
                    "evidence": pair.evidence.as_json(),
                    "decided": None if pair.decided is None else pair.decided.id,
                }
                for pair in pairs
            ],
        },
    )


@takes(
    PROJECT,
    several("--agree", "agree with this decision", "N"),
    several(
        "--refuse", "decide otherwise: take this merge apart, or merge what was kept apart", "N"
    ),
)
def review(arguments: argparse.Namespace) -> CommandResult:
    """Lists the decisions of a model on pairs that no person reviewed, with its replies, and reviews those that are
    named by their numbers.

    Raises:
        NotFound: There is no such decision to review.
    """
    reviews = [(name, True) for name in arguments.agree]
    reviews += [(name, False) for name in arguments.refuse]
    with OpenProject(Path(arguments.project), read_only=not reviews) as workspace:
        service = workspace.merge_review
        _require_groups(workspace.merge_review.goals)
        for name, agrees in reviews:
            # Read anew each time: a refusal takes what builds on it out of the list.
            decision = next((d for d in service.to_review() if str(d.id) == name), None)
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
        type=share,
        metavar="P",
        help="merge all pairs with at least this probability",
    ),
    argument(
        "--refuse-below", type=share, metavar="P", help="refuse all pairs with a lower probability"
    ),
    switch("--dry-run", "say how many pairs that would be, and store nothing"),
)
def decide(arguments: argparse.Namespace) -> CommandResult:
    """Merges all undecided pairs above a probability as one act, and refuses all below one as another.

    Raises:
        UsageError: Nothing was clustered yet, or no probability is given.
    """
    above, below = arguments.merge_above, arguments.refuse_below
    if above is None and below is None:
        raise UsageError(
            "No probability is given.", "Add --merge-above P, --refuse-below P, or both."
        )
    if above is not None and below is not None and below > above:
        raise UsageError(
            "Some pairs would be both merged and refused.",
            "The probability of --refuse-below is at most that of --merge-above.",
        )
    with OpenProject(Path(arguments.project), read_only=arguments.dry_run) as workspace:
        review = workspace.merge_review
        _require_groups(workspace.merge_review.goals)
        refusals = [] if below is None else review.below(below)
        merges = [] if above is None else review.above(above)
        merged, refused = len(merges), len(refusals)
        if not arguments.dry_run:
            refused = review.refuse_all(refusals, below) if refusals else 0
            merged = review.merge_all(merges, above) if merges else 0
        groups = len(workspace.merge_review.goals.groups())
    would = "would be merged" if arguments.dry_run else "merged"
    return CommandResult(
        [
            f"{counted(merged, 'pair')} {would}, {refused:,} refused. {counted(groups, 'group')} now."
        ],
        {"merged": merged, "refused": refused, "dry_run": arguments.dry_run, "groups": groups},
    )


@takes(
    PROJECT,
    argument(
        "file",
        help="JSON Lines as `export PROJECT decisions` writes them; docs/goals.md has the fields",
    ),
)
def import_file(arguments: argparse.Namespace) -> CommandResult:
    """Repeats the decisions of a file here, as one act; groups are found by their labels."""
    with OpenProject(Path(arguments.project)) as workspace:
        report = import_decisions(workspace.merge_review.decide_all, Path(arguments.file))
    code = EXIT_INCOMPLETE if report.left_out else EXIT_DONE
    return CommandResult(report.sentences(), asdict(report), code)


def _decide(arguments: argparse.Namespace, act: Callable[..., GoalDecision]) -> CommandResult:
    """Finds the groups that are named, decides and says what was decided."""
    with OpenProject(Path(arguments.project)) as workspace:
        goals = workspace.merge_review.goals
        groups = goals.groups()
        names = [arguments.group, *([arguments.other] if "other" in arguments else [])]
        group_ids = [resolve(groups, name).id for name in names]
        return _decision_result(act(workspace.merge_review, *group_ids), goals)


def _decision_result(decision: GoalDecision, goals: GoalService) -> CommandResult:
    """Returns what was decided, and how many groups there are now."""
    done = "" if decision.active else " (taken back)"
    groups = len(goals.groups())
    line = {key: value for key, value in asdict(decision).items() if key != "parts"}
    return CommandResult(
        [f"{decision.text}{done}. {counted(groups, 'group')} now."],
        {"decision": line, "groups": groups},
    )


def _require_groups(goals: GoalService) -> None:
    """Refuses a project without groups.

    Raises:
        NotYet: There are none.
    """
    if goals.shown() is None:
        raise NotYet("There are no groups yet.", "`workbench run cluster PROJECT` makes them.")


def resolve(groups: Sequence[GoalGroup], name: str) -> GoalGroup:
    """Returns the group with this label, else that with this id, else that with this number: a label may be a number.

    Raises:
        UsageError: There is none, or several have this label.
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
        NotFound: There is none, or there are several.
    """
    keys = workspace.conversations.named(name)
    if len(keys) == 1:
        return keys[0]
    many = "Several conversations have" if keys else "No conversation has"
    raise NotFound(f"{many} the id {name!r}.", "`workbench list PROJECT` lists the ids.")
