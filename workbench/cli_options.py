"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import get_args

from engine.records.conversations import Mode
from engine.records.goals import USUAL_TEXT, Decide, GoalText
from engine.records.models import WORKS


def add_models(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """What can be done with models; `command` makes the parser of one action out of name, help and function."""
    command("list", "list models, adapters and unfinished pulls", "models:list_models")
    sub = command("search", "find models on the hub; without a word: recommended ones", "hub:find")
    sub.add_argument("words", nargs="*", metavar="WORD", help="OWNER/NAME lists its files")
    sub.add_argument("--limit", type=positive, default=20, help="at most so many (default: 20)")
    sub = command("pull", "pull a model from the hub, or go on with a pull", "hub:pull")
    sub.add_argument(
        "repository", nargs="?", metavar="OWNER/NAME", help="default: what was begun and not ended"
    )
    sub.add_argument("file", nargs="?", help="its GGUF file, or a piece of its name like Q4_K_M")
    sub.add_argument("--revision", metavar="R", help="branch, tag or commit (default: the newest)")
    sub.add_argument("--name", help="name in the catalogue (default: that of the file)")
    sub = command("add", "add a GGUF file, an adapter, or an endpoint", "models:add")
    sub.add_argument(
        "path",
        help="a file, a folder of them, the directory of a run, or http://HOST:PORT/v1#MODEL",
    )
    sub.add_argument("--name", help="name in the catalogue (default: that of the file or model)")
    add_endpoint(sub)
    sub = command("remove", "delete what was pulled, forget what was added", "models:remove")
    sub.add_argument("model", help="name of a model, an adapter or an unfinished pull")
    sub.add_argument("--yes", action="store_true", help="delete without asking")
    sub = command("verify", "compute checksums anew and read headers", "models:verify")
    sub.add_argument("model", nargs="?", help="name of a model or an adapter (default: all)")
    sub = command("use", "choose the model that a project uses for some work", "using:use")
    sub.add_argument("project")
    sub.add_argument(
        "model",
        nargs="?",
        help="name or path, or endpoints as NAME,NAME2; the built-in one forgets the choice"
        " (default: change nothing, say what is in use)",
    )
    sub.add_argument(
        "--for",
        dest="works",
        action="append",
        choices=tuple(WORKS),
        help="the work, once or more (default: all)",
    )
    sub = command("tune", "find the fastest faithful format on this machine", "models:tune")
    sub.add_argument("model", nargs="?", help="name or path of a model (default: the built-in one)")


def add_analyses(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """What can be laid out; `command` makes the parser of one of them out of name, help and function."""
    sub = command("turns", "means of what is known, by the number of turns", "analyse:analyse")
    sub.add_argument("project")
    add_filter(sub)
    sub = command(
        "aptitude",
        "performance, aptitude and unreliability of simulated conversations, by task, condition and model",
        "analyse:analyse",
    )
    sub.add_argument("project")
    add_filter(sub)
    sub = command(
        "profiles",
        "predict who speaks from what users say, by field of their profiles",
        "analyse_profiles:profiles",
    )
    sub.add_argument("project", help="with profiles to learn from")
    sub.add_argument(
        "--test",
        metavar="PROJECT",
        help="predict in this one, such as one of real people (default: the same, by what was learnt from others)",
    )
    sub.add_argument("--embedder", default="tfidf", help="for the nearest ones (default: tfidf)")
    sub.add_argument(
        "--llm",
        action="store_true",
        help="also let a model guess, by replies that can be nothing else",
    )
    add_labelling(sub)
    sub.add_argument("--limit", type=positive, help="predict only so many, drawn by the seed")
    sub.add_argument("--seed", type=int, default=0, help="of the split (default: 0)")
    add_filter(sub)
    sub = command(
        "behaviour",
        "label how users ask by a model: order, feedback, broadness, context; three runs and a vote",
        "analyse_behaviour:behaviour",
    )
    sub.add_argument("project")
    sub.add_argument(
        "--schema",
        action="append",
        choices=["strategy", "strategy_V2", "strategy_V3"],
        help="may be repeated (default: all three)",
    )
    add_labelling(sub)
    sub.add_argument("--limit", type=positive, metavar="N", help="the first so many only")
    sub.add_argument("--seed", type=int, default=0, help="of the runs (default: 0)")
    add_filter(sub)


def add_labelling(sub: argparse.ArgumentParser) -> None:
    """Who labels, and how."""
    sub.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: the built-in one)",
    )
    sub.add_argument("--context", type=positive, metavar="N", help="longest request in tokens")
    sub.add_argument(
        "--parallel", type=positive, default=32, metavar="N", help="requests at once (default: 32)"
    )


def add_endpoint(sub: argparse.ArgumentParser) -> None:
    """What is said of an endpoint when it is added."""
    sub.add_argument("--key-env", metavar="VAR", help="environment variable with its key")
    sub.add_argument("--end-token", metavar="TEXT", help="how its end-of-text token is written")
    sub.add_argument(
        "--prices",
        nargs=2,
        type=float,
        metavar=("READ", "WRITTEN"),
        help="what a million tokens cost, read and written",
    )


def add_model(sub: argparse.ArgumentParser) -> None:
    """Which model, and which adapter on it."""
    sub.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: what `models use` chose, else the"
        " built-in one)",
    )
    sub.add_argument(
        "--adapter", help="name of an adapter, a GGUF file, or the directory of a training run"
    )


def add_tree(sub: argparse.ArgumentParser, at: Sequence[str]) -> None:
    """How trees grow; `at` names the places that may be asked for."""
    add_model(sub)
    sub.add_argument("--alpha", type=share, default=0.01, help="least probability (default: 0.01)")
    sub.add_argument(
        "--mode",
        choices=["path", "token"],
        default="path",
        help="alpha bounds the path, or each branching token as in the paper (default: path)",
    )
    sub.add_argument(
        "--at", choices=at, default="last-answer", help="where trees grow (default: last-answer)"
    )
    sub.add_argument("--max-tokens", type=positive, default=64, help="longest answer")
    sub.add_argument("--nodes", type=positive, help="stop a tree after reading so many nodes")
    sub.add_argument("--line", action="store_true", help="an answer ends at a line break")
    sub.add_argument(
        "--widest",
        type=positive,
        default=0,
        metavar="K",
        help="follow the K best tokens of a place only; the rest counts as pruned (default: all)",
    )
    sampler = sub.add_argument_group("the sampler whose answers are explored (default: none)")
    sampler.add_argument("--temperature", type=above_zero, default=1.0, metavar="T")
    sampler.add_argument("--top-k", type=positive, default=0, metavar="K")
    sampler.add_argument("--top-p", type=share, default=1.0, metavar="P")
    sampler.add_argument("--min-p", type=share, default=0.0, metavar="P")


def add_clustering(sub: argparse.ArgumentParser) -> None:
    """How goals are clustered and who decides on merges."""
    sub.add_argument(
        "--text",
        choices=get_args(GoalText),
        default=USUAL_TEXT,
        help="what stands for a goal: what the user wrote, what both sides wrote, or a model's summary"
        f" (default: {USUAL_TEXT})",
    )
    sub.add_argument("--about", help="paragraph on the application, for the summaries; is kept")
    sub.add_argument(
        "--embedder",
        default="tfidf",
        metavar="E",
        help="tfidf, minilm, mixed (both), the path of a GGUF embedding model, or a URL (default: tfidf)",
    )
    sub.add_argument(
        "--k1", type=positive, metavar="K", help="clusters, an overestimate (default: proposed)"
    )
    sub.add_argument(
        "--largest", type=positive, metavar="N", help="split clusters of more conversations"
    )
    sub.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    sub.add_argument(
        "--model",
        help="name or path of a model (default: what `models use` chose, else the built-in one)",
    )
    sub.add_argument(
        "--decide",
        choices=get_args(Decide),
        default="ask",
        help="who decides on merges: a person at the desk, the merge probability, the model's word alone as"
        " in the paper, or nobody (default: ask)",
    )
    sub.add_argument(
        "--threshold",
        type=share,
        default=0.5,
        metavar="P",
        help="merge probability from which `--decide auto` merges (default: 0.5)",
    )
    sub.add_argument(
        "--ask",
        type=positive,
        default=24,
        metavar="N",
        help="pairs that the model is asked about for `--decide ask` (default: 24); the desk asks more",
    )
    sub.add_argument(
        "--no-labels", action="store_true", help="ask no model; name clusters after their words"
    )
    sub.add_argument(
        "--any-others",
        action="store_true",
        help="show the model any texts outside a cluster, not those nearest to it",
    )


def add_training(sub: argparse.ArgumentParser) -> None:
    """What a training run is made of; the names of recipes and presets are checked where they are known."""
    sub.add_argument("project")
    sub.add_argument("--base", metavar="M", help="model by name, GGUF file, or folder of weights")
    sub.add_argument(
        "--recipe", default="boundary", help="boundary, paper or no-end-tag (default: boundary)"
    )
    sub.add_argument("--epochs", type=above_zero, help="times that everything is read (default: 3)")
    sub.add_argument(
        "--preset", help="cpu, 8g, 16g, 24g or 80g: by memory (default: what this machine has)"
    )
    sub.add_argument("--name", help="of the run (default: after base and recipe, numbered)")
    add_filter(sub)
    sub.add_argument(
        "--held-out",
        type=share,
        default=0.5,
        metavar="S",
        help="share of the conversations that is kept from training (default: 0.5)",
    )
    sub.add_argument(
        "--limit", type=positive, metavar="N", help="train on so many conversations at most"
    )
    sub.add_argument("--seed", type=int, default=0, help="of what is held out (default: 0)")
    sub.add_argument(
        "--contaminate",
        type=share,
        default=0.0,
        metavar="S",
        help="cut this share of the training conversations, to measure what incomplete ones cost",
    )
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="another setting of the run, like rank=32; `train status PROJECT RUN` lists them",
    )
    sub.add_argument("--resume", metavar="RUN", help="go on with a run at its last checkpoint")
    sub.add_argument("--estimate", action="store_true", help="say what it would cost and stop")
    sub.add_argument("--detach", action="store_true", help="begin it and do not watch")


def add_validation(sub: argparse.ArgumentParser) -> None:
    """What each metric is validated on."""
    of_trees = sub.add_argument_group("trees")
    of_trees.add_argument("--config", metavar="HASH", help="these trees (default: those shown)")
    test = sub.add_argument_group("completeness: whole conversations against cut ones")
    test.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        help="what this training run held out (default: the only run there is, else all)",
    )
    test.add_argument("--mode", choices=get_args(Mode), help="only scores of this mode")
    test.add_argument("--adapter", help="only scores with this adapter")
    test.add_argument("--seed", type=int, help="of the cuts (default: 0)")
    test.add_argument("--limit", type=positive, help="only the first so many conversations")
    test.add_argument(
        "--same-kind",
        action="store_const",
        const=True,
        help="cut only after steps of the kind (assistant, tool) that a conversation ends with",
    )
    test.add_argument("--plot", metavar="FILE", help="also draw the table, as .svg or .png")
    test.add_argument(
        "--against",
        choices=["rows", "conversations", "cut"],
        help="draw it row by row (default), by how many conversations an adapter was trained on, or by what share"
        " of them was cut",
    )


def add_filter(sub: argparse.ArgumentParser) -> None:
    """Which conversations."""
    sub.add_argument(
        "--filter",
        metavar="F",
        default="",
        help="only conversations that match, like 'state:incomplete turns>5 \"refund\"'",
    )


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError("must be above 0 and at most 1")
    return number


def above_zero(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
