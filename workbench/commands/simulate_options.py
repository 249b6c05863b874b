"""The words of `workbench simulate`, one function for what all kinds share and one part for each kind."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from engine.simulate.recsim.people import LANGUAGES, TASKS
from workbench.cli_options import positive


def add_simulations(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """All kinds; `command` makes the parser of one kind out of name, help and function."""
    sub = command("sharded", "instructions revealed shard by shard", "simulate_sharded:simulate")
    add_common(sub)
    add_sharded(sub)

    sub = command("shards", "propose shards for full instructions", "simulate_sharded:make_shards")
    add_common(sub)
    add_shards(sub)

    sub = command("forms", "forms filled in conversation", "simulate_forms:simulate")
    add_common(sub)
    add_forms(sub)

    sub = command(
        "recsim", "users with profiles who plan with an assistant", "simulate_recsim:simulate"
    )
    add_common(sub)
    add_recsim(sub)


def add_common(sub: argparse.ArgumentParser, *, runs: int = 1) -> None:
    """What all kinds have: the project, models, repetitions, and what is random.

    Args:
        runs: How often each scenario is played unless something else is asked for.
    """
    sub.add_argument("project")
    sub.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: the built-in one)",
    )
    sub.add_argument("--user-model", metavar="M", help="who plays the user (default: --model)")
    sub.add_argument("--judge-model", metavar="M", help="who judges (default: --model)")
    sub.add_argument("--context", type=positive, metavar="N", help="longest conversation in tokens")
    sub.add_argument(
        "--runs",
        type=positive,
        default=runs,
        metavar="N",
        help=f"how often each is played (default: {runs})",
    )
    sub.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    sub.add_argument(
        "--temperature", type=not_negative, metavar="T", help="of replies in free words"
    )
    sub.add_argument(
        "--parallel", type=positive, default=32, metavar="N", help="plays at once (default: 32)"
    )
    sub.add_argument("--limit", type=positive, metavar="N", help="the first so many only")


def add_forms(sub: argparse.ArgumentParser) -> None:
    """What the filling of forms has beside."""
    sub.add_argument(
        "--form",
        action="append",
        metavar="FORM",
        help="ss5, epa, med, inv or a JSON file; may be repeated (default: these four)",
    )
    sub.add_argument("--variant", choices=["modular", "baseline", "both"], default="both")
    sub.add_argument(
        "--profile",
        choices=["question", "run"],
        default="question",
        help="the user is another one for each question, or one for a run, who knows the answers (default: question)",
    )
    sub.add_argument("--profiles", metavar="FILE", help="JSON list of users (default: ten users)")
    sub.add_argument(
        "--dummies",
        nargs="+",
        metavar="MODULE",
        help="modules whose fallback answers at once, by the names of their prompts, or all",
    )
    sub.add_argument(
        "--high",
        type=not_negative,
        metavar="T",
        help="temperature of users and second calls (default: 0.2)",
    )
    sub.add_argument(
        "--grouping",
        type=positive,
        default=7,
        metavar="N",
        help="labels grouped at once (default: 7)",
    )
    sub.add_argument(
        "--follow-ups",
        type=positive,
        default=5,
        metavar="N",
        help="on one question, at most (default: 5)",
    )
    sub.add_argument(
        "--turns",
        type=positive,
        default=3,
        metavar="N",
        help="turns for each field, at most (default: 3)",
    )
    sub.add_argument(
        "--history",
        type=positive,
        default=4000,
        metavar="N",
        help="tokens the baseline keeps (default: 4000)",
    )
    sub.add_argument("--files", metavar="DIR", help="also write each run as its source stores one")


def add_recsim(sub: argparse.ArgumentParser) -> None:
    """Who plans what; `--runs` is the number of conversations of each task."""
    sub.add_argument(
        "--task",
        action="append",
        choices=TASKS,
        metavar="TASK",
        help=f"{', '.join(TASKS)}; may be repeated (default: all)",
    )
    sub.add_argument("--language", choices=LANGUAGES, default="en", help="default: en")
    sub.add_argument(
        "--turns",
        type=positive,
        default=10,
        metavar="N",
        help="answers of the assistant, at most (default: 10)",
    )
    sub.add_argument(
        "--questions", action="store_true", help="ask both sides afterwards what came of it"
    )
    sub.add_argument(
        "--user-tokens", type=positive, default=200, metavar="N", help="of a wish (default: 200)"
    )
    sub.add_argument(
        "--assistant-tokens",
        type=positive,
        default=512,
        metavar="N",
        help="of an answer (default: 512)",
    )


def add_sharded(sub: argparse.ArgumentParser) -> None:
    """Which instructions, and under which conditions."""
    sub.add_argument("instructions", help="JSON or JSONL file; or what comes along: math, samples")
    sub.add_argument(
        "--conditions",
        metavar="A,B",
        help="of full, concat, shuffle-concat, sharded, recap, recap-full, snowball (default: all but recap-full)",
    )
    sub.add_argument(
        "--user-temperature",
        type=not_negative,
        default=1.0,
        metavar="T",
        help="of the simulated user (default: 1)",
    )
    sub.add_argument(
        "--logs", type=Path, metavar="DIR", help="write the logs there, in the format of the source"
    )
    sub.add_argument("--unapproved", action="store_true", help="also shards that wait for approval")
    _add_replies(sub)


def add_shards(sub: argparse.ArgumentParser) -> None:
    """From which instructions to which file."""
    sub.add_argument("instructions", metavar="IN", help="JSON or JSONL file of full instructions")
    sub.add_argument("output", metavar="OUT", help="JSONL file of instructions with shards")
    sub.add_argument(
        "--check",
        type=positive,
        default=0,
        metavar="N",
        help="play FULL and CONCAT so often: shards that lose nothing score alike",
    )
    _add_replies(sub)


def _add_replies(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--max-tokens",
        type=positive,
        default=1000,
        metavar="N",
        help="longest reply of the assistant (default: 1000)",
    )
    sub.add_argument(
        "--databases", type=Path, metavar="DIR", help="folder with DB_ID/*.sqlite of database tasks"
    )


def not_negative(text: str) -> float:
    """A number that is 0 or more."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number
