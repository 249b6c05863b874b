"""`workbench goals`: what the goals screen and the merge desk do to groups, as commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted, figure
from engine.base.text import one_line
from engine.goals.records import GoalDecision, GoalGroup, MergeOrder, Proposal
from engine.goals.service.decisions import import_decisions
from engine.goals.service.service import GoalService
from engine.opener.open_project import OpenProject
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.commands.options import add_filter, positive, read_filter, share
from workbench.exits import DONE, WITH_GAPS

NONE = "none"
"""Stands for no group, where conversations are moved out of all."""


def list_groups_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `list_groups`."""
    parser.add_argument("project")
    add_filter(parser)


def list_groups(arguments: argparse.Namespace) -> int:
    """Prints the groups, the largest first: number, id, size, share and label."""
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        groups = workspace.goals.groups(read_filter(arguments.filter))
    if arguments.json:
        print_json({"groups": list(map(asdict, groups))})
        return DONE
    for one in groups:
        pinned = " (pinned)" if one.pinned else ""
        print_text(
            f"{one.number:>4}  {one.id:<8}{one.size:>8,}  {one.share:>4.0%}  {one_line(one.label)}{pinned}"
        )
    if not groups:
        print_text("No groups. `workbench run cluster PROJECT` makes them.")
    return DONE


def clusterings_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `clusterings`."""
    parser.add_argument("project")
    parser.add_argument("--show", type=positive, metavar="N", help="show the clustering N instead")


def clusterings(arguments: argparse.Namespace) -> int:
    """Prints the clusterings, oldest first; with --show shows one of them first.

    Raises:
        NotFound: There is no such clustering.
    """
    with _opened(arguments.project, read_only=arguments.show is None) as services:
        if arguments.show is not None:
            services.goals.show(arguments.show)
        found, shown = services.goals.clusterings(), services.goals.shown()
    key = None if shown is None else shown.id
    if arguments.json:
        print_json({"shown": key, "clusterings": list(map(asdict, found))})
        return DONE
    for one in found:
        print_text(
            f"{'*' if one.id == key else ' '} {one.id:>2}  {one.created_at[:16].replace('T', ' ')}  {one.text},"
            f" {one.embedder}, k {one.k}, seed {one.seed}: {counted(one.groups, 'group')} of"
            f" {counted(one.conversations, 'conversation')}"
        )
    print_text(
        "* shown; --show N shows another"
        if found
        else "No clusterings. `workbench run cluster PROJECT` makes one."
    )
    return DONE


def rename_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `rename`."""
    _declare(parser, "group")
    parser.add_argument("label", help="the new label")


def rename(arguments: argparse.Namespace) -> int:
    """Gives a group another label."""
    return _decide(arguments, lambda goals, one: goals.rename(one, arguments.label))


def pin_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `pin`."""
    _declare(parser, "group")
    parser.add_argument("--off", action="store_true", help="unpin it")


def pin(arguments: argparse.Namespace) -> int:
    """Pins a group, which is then not proposed for a merge and keeps its label, or unpins it."""
    return _decide(arguments, lambda goals, one: goals.pin(one, on=not arguments.off))


def merge_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `merge`."""
    _declare(parser, "group", "other")
    parser.add_argument(
        "--label",
        help="label of the merged group (default: the proposed one, or that of the larger)",
    )


def merge(arguments: argparse.Namespace) -> int:
    """Merges two groups."""
    return _decide(
        arguments, lambda goals, one, other: goals.merge(goals.pair(one, other), arguments.label)
    )


def apart_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `apart`."""
    _declare(parser, "group", "other")
    parser.add_argument(
        "--never", action="store_true", help="forbid the merge in later clusterings too"
    )


def apart(arguments: argparse.Namespace) -> int:
    """Refuses a merge: the two are not proposed again."""
    return _decide(
        arguments,
        lambda goals, one, other: goals.apart(goals.pair(one, other), never=arguments.never),
    )


def split_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `split`."""
    _declare(parser, "group")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--parts",
        type=positive,
        default=2,
        metavar="N",
        help="parts that k-means makes (default: 2)",
    )
    how.add_argument(
        "--members",
        nargs="+",
        metavar="ID",
        help="split off these conversations as one group instead",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what the parts would be and store nothing"
    )


def split(arguments: argparse.Namespace) -> int:
    """Splits a group by k-means, or splits named members off it; phrases of their members label the parts.

    Raises:
        UsageError: There is no such group, it does not have one of the members, or nothing would be split off.
    """
    with _opened(arguments.project, read_only=arguments.dry_run) as services:
        goals = services.goals
        group = resolve(goals.groups(), arguments.group)
        if arguments.members:
            ids = {conversation(services, name) for name in arguments.members}
            if not ids.issubset(one.conversation_id for one in goals.members(group.id)):
                raise UsageError(
                    f"“{one_line(group.label)}” does not have all of these conversations.",
                    "`workbench goals move` moves conversations of other groups.",
                )
            parts = [tuple(sorted(ids))]
            sizes = [len(ids), group.size - len(ids)]
        else:
            found = goals.split_preview(group.id, arguments.parts)
            parts, sizes = [one.conversation_ids for one in found], [one.size for one in found]
        if len([size for size in sizes if size]) < 2:
            raise UsageError("A split takes two parts.", "Choose some of the members, not all.")
        if not arguments.dry_run:
            goals.split(group.id, parts)
        groups = goals.groups()
    if arguments.json:
        print_json({"parts": sizes, "dry_run": arguments.dry_run, "groups": len(groups)})
        return DONE
    sizes_text = ", ".join(f"{size:,}" for size in sizes)
    would = "would be split" if arguments.dry_run else "was split"
    print_text(f"“{one_line(group.label)}” {would} into parts of {sizes_text} conversations.")
    return DONE


def move_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `move`."""
    parser.add_argument("project")
    parser.add_argument("group", help=f"{_WHICH}; {NONE} takes them out of all groups")
    parser.add_argument("conversations", nargs="+", metavar="ID", help="ids of conversations")


def move(arguments: argparse.Namespace) -> int:
    """Moves conversations to a group, in one act."""
    with _opened(arguments.project) as services:
        goals = services.goals
        target = None if arguments.group == NONE else resolve(goals.groups(), arguments.group)
        keys = [conversation(services, name) for name in arguments.conversations]
        decision = goals.move(keys, None if target is None else target.id)
        return _said(arguments, decision, goals)


def undo_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `undo`."""
    parser.add_argument("project")
    parser.add_argument("--redo", action="store_true", help="give again what was taken back last")


def undo(arguments: argparse.Namespace) -> int:
    """Takes the newest decision on groups back, or gives it again."""
    with _opened(arguments.project) as services:
        goals = services.goals
        _require_groups(goals)
        decision = goals.redo() if arguments.redo else goals.undo()
        if decision is None:
            raise NotYet(f"There is nothing to {'redo' if arguments.redo else 'undo'}.")
        return _said(arguments, decision, goals)


def proposals_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `proposals`."""
    parser.add_argument("project")
    parser.add_argument(
        "--limit", type=positive, default=10, metavar="N", help="list at most N (default: 10)"
    )
    parser.add_argument(
        "--order", choices=get_args(MergeOrder), help="which pairs come first, from now on"
    )
    parser.add_argument(
        "--least-similarity",
        type=float,
        metavar="S",
        help="propose only pairs whose labels are at least this similar (-1 to 1), from now on",
    )
    parser.add_argument(
        "--ask",
        action="store_true",
        help="first ask a model about likely pairs on which it was not asked yet",
    )
    parser.add_argument(
        "--model",
        metavar="M",
        help="with --ask: name or path of a model (default: what `models use` chose, else the built-in one)",
    )


def proposals(arguments: argparse.Namespace) -> int:
    """Prints the next pairs of groups that may be one goal, with the evidence; nothing is decided.

    Raises:
        UsageError: Nothing was clustered yet, the similarity is not from -1 to 1, there is no such model, or nothing is
            asked of it.
    """
    order, similarity = arguments.order, arguments.least_similarity
    changes = arguments.ask or order is not None or similarity is not None
    if arguments.model is not None and not arguments.ask:
        raise UsageError("--model is for --ask.", "Add --ask.")
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        goals = workspace.goals
        _require_groups(goals)
        if order is not None:
            goals.set_order(order)
        if similarity is not None:
            goals.set_least_similarity(similarity)
        if arguments.ask:
            run_stages(workspace, workspace.goal_stages().ask(arguments.model))
        found: list[Proposal] = []
        while len(found) < arguments.limit and (
            one := goals.proposal([shown.pair for shown in found])
        ):
            found.append(one)
        left = goals.progress().left
    if arguments.json:
        print_json(
            {
                "left": left,
                "proposals": [{**asdict(one), "evidence": one.evidence.as_json()} for one in found],
            }
        )
        return DONE
    for one in found:
        evidence = one.evidence
        print_text(
            f"{evidence.probability:>4.0%}  {one.a.id} “{one_line(one.a.label, 40)}” ({one.a.size:,})"
            f" and {one.b.id} “{one_line(one.b.label, 40)}” ({one.b.size:,});"
            f" labels {figure(evidence.description_similarity)}, members {figure(evidence.member_similarity)}"
        )
    print_text(
        f"{counted(left, 'pair')} left to decide; `workbench goals merge`, or `goals apart`."
    )
    return DONE


def decide_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `decide`."""
    parser.add_argument("project")
    parser.add_argument(
        "--merge-above",
        type=share,
        metavar="P",
        help="merge all pairs with at least this probability",
    )
    parser.add_argument(
        "--refuse-below", type=share, metavar="P", help="refuse all pairs with a lower probability"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say how many pairs that would be, and store nothing"
    )


def decide(arguments: argparse.Namespace) -> int:
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
    with _opened(arguments.project, read_only=arguments.dry_run) as services:
        goals = services.goals
        _require_groups(goals)
        refusals = [] if below is None else goals.below(below)
        merges = [] if above is None else goals.above(above)
        merged, refused = len(merges), len(refusals)
        if not arguments.dry_run:
            refused = goals.refuse_all(refusals, below) if refusals else 0
            merged = goals.merge_all(merges, above) if merges else 0
        groups = len(goals.groups())
    if arguments.json:
        print_json(
            {"merged": merged, "refused": refused, "dry_run": arguments.dry_run, "groups": groups}
        )
        return DONE
    would = "would be merged" if arguments.dry_run else "merged"
    print_text(
        f"{counted(merged, 'pair')} {would}, {refused:,} refused. {counted(groups, 'group')} now."
    )
    return DONE


def settle_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `settle`."""
    parser.add_argument("project")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be moved and store nothing"
    )


def settle(arguments: argparse.Namespace) -> int:
    """Moves each conversation to the group of most of its nearest neighbors, as one act.

    Raises:
        UsageError: Nothing was clustered yet.
    """
    with _opened(arguments.project, read_only=arguments.dry_run) as services:
        goals = services.goals
        _require_groups(goals)
        found = goals.settle_preview()
        if found and not arguments.dry_run:
            goals.settle()
    moved = sum(one.count for one in found)
    if arguments.json:
        print_json(
            {
                "moved": moved,
                "dry_run": arguments.dry_run,
                "groups": [asdict(one) for one in found],
            }
        )
        return DONE
    for one in found:
        print_text(f"{one.count:>8,}  to “{one_line(one.label)}” ({one.size:,})")
    would = "would be moved" if arguments.dry_run else "moved"
    print_text(f"{counted(moved, 'conversation')} {would}.")
    return DONE


def import_file_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `import_file`."""
    parser.add_argument("project")
    parser.add_argument(
        "file",
        help="JSON Lines as `export PROJECT decisions` writes them; docs/goals.md has the fields",
    )


def import_file(arguments: argparse.Namespace) -> int:
    """Repeats the decisions of a file here, as one act; groups are found by their labels."""
    with _opened(arguments.project) as services:
        report = import_decisions(services.goals.decide_all, Path(arguments.file))
    if arguments.json:
        print_json(asdict(report))
    else:
        for sentence in report.sentences():
            print_text(sentence)
    return WITH_GAPS if report.left_out else DONE


_WHICH = "label, id or number of a group, in this order (`workbench goals list`)"


def _declare(parser: argparse.ArgumentParser, *groups: str) -> None:
    parser.add_argument("project")
    for name in groups:
        parser.add_argument(name, help=_WHICH)
    parser.set_defaults(groups=groups)


@contextmanager
def _opened(project: str, *, read_only: bool = False) -> Iterator[OpenProject]:
    with OpenProject(Path(project), read_only=read_only) as workspace:
        yield workspace


def _decide(arguments: argparse.Namespace, act: Callable[..., GoalDecision]) -> int:
    """Finds the groups that are named, decides and says what was decided."""
    with _opened(arguments.project) as services:
        goals = services.goals
        groups = goals.groups()
        chosen = [resolve(groups, getattr(arguments, name)).id for name in arguments.groups]
        return _said(arguments, act(goals, *chosen), goals)


def _said(arguments: argparse.Namespace, decision: GoalDecision, goals: GoalService) -> int:
    if arguments.json:
        line = {key: value for key, value in asdict(decision).items() if key != "parts"}
        print_json({"decision": line, "groups": len(goals.groups())})
    else:
        done = "" if decision.active else " (taken back)"
        print_text(f"{decision.text}{done}. {counted(len(goals.groups()), 'group')} now.")
    return DONE


def _require_groups(goals: GoalService) -> None:
    if goals.shown() is None:
        raise NotYet("There are no groups yet.", "`workbench run cluster PROJECT` makes them.")


def resolve(groups: list[GoalGroup], name: str) -> GoalGroup:
    """The group with this label, else that with this id, else that with this number: a label may be a number.

    Raises:
        UsageError: There is none, or several have this label.
    """
    wanted = " ".join(name.split()).lower()
    found = (
        [one for one in groups if " ".join(one.label.split()).lower() == wanted]
        or [one for one in groups if one.id == wanted]
        or [one for one in groups if str(one.number) == wanted]
    )
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(one.id for one in found)
        raise UsageError(f"Several groups have the label {name!r}.", f"Name one by its id: {ids}.")
    if not groups:
        raise NotYet("There are no groups yet.", "`workbench run cluster PROJECT` makes them.")
    raise NotFound(f"No group is {name!r}.", "`workbench goals list PROJECT` lists them.")


def conversation(services: OpenProject, name: str) -> int:
    """The conversation that was imported with this id.

    Raises:
        UsageError: There is none, or there are several.
    """
    found = services.conversations.named(name)
    if len(found) == 1:
        return found[0]
    many = "Several conversations have" if found else "No conversation has"
    raise NotFound(f"{many} the id {name!r}.", "`workbench list PROJECT` lists the ids.")
