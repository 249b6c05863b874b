"""The command line. Knows the words; each command does its work in `workbench.commands`, imported when called.

Exit codes: 0 done, 1 failed, 2 usage, 3 done with unscored or quarantined items, 130 cancelled.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn, get_args

from engine import network_guard
from engine.errors import Cancelled, UsageError, WorkbenchError
from engine.filters import SortKey
from engine.text import display_safe
from workbench.cli_options import (
    add_analyses,
    add_clustering,
    add_filter,
    add_model,
    add_models,
    add_training,
    add_tree,
    add_validation,
    positive,
    share,
)
from workbench.commands.simulate_options import add_simulations
from workbench.exits import CANCELLED, FAILED, USAGE

DESCRIPTION = """\
Offline terminal workbench for conversations between users and LLM systems: what users wanted, whether they
got it, and how sure the model was. `workbench PROJECT` opens a project. Nothing leaves this machine unless you name
an endpoint or ask a hub; with --offline, not even then."""

EPILOG = """\
exit codes: 0 done · 1 failed · 2 usage · 3 done, with unscored or quarantined items · 130 cancelled
Standard output is data, standard error is narration; every command takes --json."""


THEMES = ("dark", "light", "high-contrast", "ansi")
"""Those of `screens.shell.themes`, named here so that `--help` need not import a screen."""


EXPORTS = (
    "scores", "verdicts", "conversations", "trees", "clusters", "assignments", "decisions", "transcripts",
)  # fmt: skip


COMMANDS = (
    "open", "demo", "import", "run", "status", "list", "tree", "export", "calibrate", "validate", "analyse",
    "simulate", "train", "prompts", "models", "offline", "keys", "doctor", "bench",
)  # fmt: skip


TRAINING = ("start", "status", "stop")

_OFFLINE = "reach nothing, not even the endpoints and hubs that are configured"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        sys.stderr.write(display_safe(f"{self.prog}: {message}\n"))
        raise SystemExit(USAGE)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="workbench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(network_guard.FLAG, action="store_true", help=_OFFLINE)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(
        name: str, text: str, run: str, into: argparse._SubParsersAction[_Parser] = commands
    ) -> argparse.ArgumentParser:
        sub = into.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
        # Without a default of its own: that would undo the same word before the command.
        sub.add_argument(
            network_guard.FLAG, action="store_true", default=argparse.SUPPRESS, help=_OFFLINE
        )
        return sub

    sub = command(
        "open", "open a project in the terminal (also: workbench PROJECT)", "tui:open_project"
    )
    sub.add_argument("project", nargs="?", help="project file (default: asks which)")
    sub.add_argument("--read-only", action="store_true", help="look without changing anything")
    sub.add_argument("--theme", choices=THEMES, help="colours (default: the last ones used)")

    sub = command("demo", "build a sample project, run everything on it, open it", "demo:demo")
    sub.add_argument("dir", nargs="?", help="folder for the project (default: workbench-demo)")
    sub.add_argument("--headless", action="store_true", help="do not open the terminal screens")
    sub.add_argument("--count", type=positive, default=150, help="conversations (default: 150)")
    sub.add_argument("--seed", type=int, default=7, help="seed of the samples (default: 7)")
    sub.add_argument(
        "--samples-only", action="store_true", help="import the samples and run nothing"
    )

    sub = command("import", "import files or folders of conversations", "importing:import_paths")
    sub.add_argument("project")
    sub.add_argument(
        "paths", nargs="+", metavar="PATH", help="file, folder, or - for standard input"
    )
    sub.add_argument("--format", help="read the input as this format instead of detecting it")

    run = commands.add_parser("run", help="run a stage", description="Run a stage.")
    stages = run.add_subparsers(dest="stage", metavar="STAGE", required=True)

    sub = command("complete", "score completeness", "scoring:run_complete", stages)
    sub.add_argument("project")
    add_model(sub)
    sub.add_argument("--mode", choices=["base", "tuned", "judge"], help="default: base")
    sub.add_argument(
        "--end-tag", help="text tag that a tuned model ends with (default: its end token)"
    )
    sub.add_argument("--context", type=positive, help="longest log in tokens")
    add_filter(sub)
    sub.add_argument(
        "--held-out-by", metavar="RUN", help="only what this training run was not trained on"
    )
    sub.add_argument(
        "--limit",
        type=positive,
        help="score only the first so many conversations; --filter 'draw<.1' scores a tenth at random",
    )
    sub.add_argument("--no-tune", action="store_true", help="use the model file as it is")
    sub.add_argument("--no-remaining", action="store_true", help="do not spell out remaining tasks")
    sub.add_argument("--estimate", action="store_true", help="say what it would cost and stop")

    sub = command("trees", "grow response trees", "trees:run_trees", stages)
    sub.add_argument("project")
    add_tree(sub, ["last-answer", "end", "every"])
    add_filter(sub)
    sub.add_argument("--limit", type=positive, help="only the first so many conversations")
    sub.add_argument("--context", type=positive, help="longest log in tokens")

    sub = command("cluster", "cluster what users wanted", "cluster:run_cluster", stages)
    sub.add_argument("project")
    add_clustering(sub)
    add_filter(sub)
    sub.add_argument("--limit", type=positive, help="only the first so many conversations")

    sub = command("assign", "assign later conversations to the groups", "assign:run_assign", stages)
    sub.add_argument("project")
    sub.add_argument("--model", help="that wrote the summaries, for a clustering of summaries")
    sub.add_argument(
        "--holdout",
        type=share,
        metavar="S",
        help="assign nothing; cluster all but a share, like 0.5, and measure how near the held-out ones"
        " are to the clusters (Table 4 of the paper)",
    )
    sub.add_argument("--seed", type=int, default=0, help="of what is held out (default: 0)")

    sub = command(
        "stability", "measure how stable the clusters are", "stability:run_stability", stages
    )
    sub.add_argument("project")
    sub.add_argument("--seeds", type=positive, default=5, help="other seeds (default: 5)")
    sub.add_argument(
        "--bootstraps", type=positive, default=20, help="draws with replacement (default: 20)"
    )

    sub = command("status", "say what is in a project and what was run", "status:status")
    sub.add_argument("project")
    add_filter(sub)

    sub = command("list", "list conversations, one a line", "listing:list_conversations")
    sub.add_argument("project")
    add_filter(sub)
    sub.add_argument(
        "--sort", choices=get_args(SortKey), default="id", help="default: id, the order of import"
    )
    sub.add_argument("--reverse", action="store_true", help="the other way round")
    sub.add_argument("--limit", type=positive, metavar="N", help="the first so many only")

    sub = command("tree", "grow the response tree of one conversation and print it", "tree:tree")
    sub.add_argument("project")
    sub.add_argument("conversation", help="its name, as `workbench list` shows it")
    add_tree(sub, ["last-answer", "end", "every"])
    sub.add_argument(
        "--step", type=positive, metavar="N", help="before the assistant's step N instead"
    )
    sub.add_argument("--seconds", type=float, help="stop after so many seconds")
    sub.add_argument("--property", metavar="P", help="bound the probability of `contains yes`, ...")
    sub.add_argument("--text", action="store_true", help="print complete answers instead")
    sub.add_argument(
        "--meaning",
        type=share,
        metavar="S",
        help="put answers together that are at least so similar, like 0.85",
    )

    sub = command("export", "write what is known as lines of JSON or CSV", "exporting:export")
    sub.add_argument("project")
    sub.add_argument("what", choices=EXPORTS)
    sub.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    sub.add_argument(
        "--format", choices=["jsonl", "csv"], help="default: by the file name, else jsonl"
    )
    add_filter(sub)

    sub = command("calibrate", "say what the verdicts say of the scores", "calibrate:calibrate")
    sub.add_argument("project")
    add_filter(sub)
    sub.add_argument(
        "--apply", action="store_true", help="put the threshold of the verdicts in force"
    )

    sub = command("validate", "hold a metric against what is known", "validate:validate")
    sub.add_argument("project")
    sub.add_argument("metric", choices=["goals", "completeness", "trees", "all"])
    add_filter(sub)
    add_validation(sub)

    analyse = commands.add_parser(
        "analyse",
        help="lay out what came along with conversations, and what it says of users",
        description="Lays out what came along with conversations, and what it says of users.",
    )
    about = analyse.add_subparsers(dest="what", metavar="WHAT", required=True)
    add_analyses(lambda name, text, run: command(name, text, run, about))

    simulate = commands.add_parser(
        "simulate",
        help="play conversations with known truth into a project",
        description="Plays conversations with models into a project, with truth attached. What was played stays; to go"
        " on after a break, run the same again.",
    )
    kinds = simulate.add_subparsers(dest="kind", metavar="KIND", required=True)
    add_simulations(lambda name, text, run: command(name, text, run, kinds))

    train = commands.add_parser(
        "train",
        help="train an adapter on a project's conversations (workbench train PROJECT)",
        description="Trains an adapter on a project's conversations. `workbench train PROJECT` begins a run.",
    )
    about = train.add_subparsers(dest="action", metavar="ACTION", required=True)
    sub = command("start", "begin a run or go on with one, and watch it", "train:start", about)
    add_training(sub)
    sub = command("status", "say how runs stand", "train:status", about)
    sub.add_argument("project")
    sub.add_argument("run_name", nargs="?", metavar="RUN", help="only this one, with its settings")
    sub = command("stop", "end a run after its step and keep its best", "train:stop", about)
    sub.add_argument("project")
    sub.add_argument("run_name", metavar="RUN")

    sub = command("prompts", "show or edit the prompts of a project", "prompts:prompts")
    sub.add_argument("project")
    sub.add_argument("name", nargs="?", help="print this prompt")
    sub.add_argument("--set", metavar="FILE", dest="file", help="use the prompt in this file")
    sub.add_argument("--reset", action="store_true", help="go back to the built-in prompt")

    models = commands.add_parser(
        "models",
        help="list, search, pull, add, check, tune and remove models",
        description="What is on disk, and what a hub has. Only search and pull use the network.",
    )
    about = models.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_models(lambda name, text, run: command(name, text, run, about))

    sub = command("offline", "say or change whether a project stays offline", "offline:offline")
    sub.add_argument("project")
    sub.add_argument(
        "wanted",
        nargs="?",
        choices=["on", "off"],
        help="on: it reaches nothing, not even what is configured (default: say what holds)",
    )

    sub = command("keys", "list the keys and say where to change them", "keys:keys")
    sub.add_argument("--markdown", action="store_true", help="the default keys as documentation")

    sub = command("doctor", "say what this machine can do and what is wrong", "doctor:doctor")
    sub.add_argument("project", nargs="?", help="also check this project")

    sub = command("bench", "measure speed against named baselines", "bench:bench")
    sub.add_argument("which", nargs="*", help="parts, see docs (default: all)")
    sub.add_argument("--quick", action="store_true", help="measure little: shows that it works")
    sub.add_argument("--file", metavar="FILE", help="uniform JSON Lines file that import reads")
    sub.add_argument(
        "--rows",
        type=positive,
        help="conversations in the list, vectors to cluster (default: 100,000)",
    )
    return parser


def _joined(words: Sequence[str]) -> list[str]:
    """The words with each filter joined to its option: one may begin with a minus, which argparse takes for another
    option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--filter":
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    first = words[:1] == [network_guard.FLAG]
    if first:
        del words[0]
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        words.insert(0, "open")
    if words[:1] == ["train"] and words[1:2] and words[1] not in (*TRAINING, "-h", "--help"):
        words.insert(1, "start")
    if not words and sys.stdin.isatty() and sys.stdout.isatty():
        words = ["open"]
    parser = build_parser()
    try:
        arguments = parser.parse_args(_joined(words))
    except SystemExit as stop:
        return int(stop.code or 0)
    if arguments.version:
        from engine.folders import version

        print(version())
        return 0
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    if first or arguments.offline:
        os.environ[network_guard.VARIABLE] = network_guard.FLAG
    network_guard.install()
    module, function = arguments.run.split(":")
    try:
        return int(_function(module, function)(arguments))
    except UsageError as error:
        return _tell(error, USAGE)
    except Cancelled as error:
        return _tell(error, CANCELLED)
    except WorkbenchError as error:
        return _tell(error, FAILED)
    except KeyboardInterrupt:
        sys.stderr.write("workbench: cancelled\n")
        return CANCELLED
    except BrokenPipeError:
        # The reader of our output went away, as in `workbench export … | head`.
        sys.stderr.close()
        return 0


def _function(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    found: Callable[[argparse.Namespace], int] = getattr(
        import_module(f"workbench.commands.{module}"), name
    )
    return found


def _tell(error: WorkbenchError, code: int) -> int:
    sys.stderr.write(display_safe(f"workbench: {error.message}\n"))
    if error.hint:
        sys.stderr.write(display_safe(f"  {error.hint}\n"))
    return code
