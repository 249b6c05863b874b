"""`python -m tests.benchmarks.reproduction DATA...`: the tables of Soroka et al. over several data sets in one report.

It runs other commands of the program, each on a project of its own for each data set, and prints them, so that every
step can be done by hand.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from engine.base.errors import Cancelled, NameTaken, NotFound, NotYet, UsageError, WorkbenchError
from engine.base.line_files import write_beside
from engine.base.report_table import ReportTable
from engine.base.text import as_json as json_text
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.project import settings
from engine.project.backups import restore
from engine.project.project import Project
from engine.results.document import write_document
from engine.training.service import RunDirectories
from tests.benchmarks.reproduction.data_sets import RUN, RUN_WITHOUT_TAG, DataSet, read_data_set
from tests.benchmarks.reproduction.document import as_json, document, plots
from tests.benchmarks.reproduction.goals import label_one_by_one
from tests.benchmarks.reproduction.paper import DATA_SETS
from tests.benchmarks.reproduction.plots import to_svg
from tests.benchmarks.reproduction.tables import tables
from tests.benchmarks.tool import run_tool
from workbench.arguments import positive, share
from workbench.cli import build_parser
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import narrate, print_json, print_result, print_text
from workbench.text_tables import table_lines

DONE_KEY = "reproduced"
"""Setting: the commands of a reproduction that were finished (`python -m tests.benchmarks.reproduction`)."""


def main(words: Sequence[str] | None = None) -> int:
    """Computes the tables of the data sets that are named; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.reproduction",
        description="The tables and figures of Soroka et al. over several data sets, in one report.",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "data", nargs="+", metavar="DATA", help="a data set: a file or folder of logs, or a project, which is copied"
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True,
        help="folder for the projects and the report; the same command goes on where it was stopped",
    )  # fmt: skip
    parser.add_argument(
        "--compare-with", action="append", default=[], metavar="NAME=PAPER",
        help=f"print the paper's row for PAPER ({', '.join(DATA_SETS)}) below the row of your data set NAME, the name"
        " of its file without the ending",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="only N conversations of each, drawn at random (default: all)"
    )  # fmt: skip
    parser.add_argument("--model", help="name or path of a model (default: the project's)")
    parser.add_argument(
        "--k1", type=positive, default=20, metavar="K",
        help="clusters to begin with, an overestimate; the paper does not print its own (default: 20)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=positive, default=1, metavar="N", help="Figure 4: further runs of the algorithm (default: 1)"
    )  # fmt: skip
    parser.add_argument(
        "--orders", type=positive, default=2, metavar="N", help="Figure 4: orders of the LLM-only baseline (default: 2)"
    )  # fmt: skip
    parser.add_argument(
        "--alpha",
        type=share,
        default=0.05,
        help="branching probability of the trees (default: 0.05)",
    )
    parser.add_argument(
        "--nodes", type=positive, default=500, help="most nodes of a tree (default: 500)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="a setting of the training runs"
    )  # fmt: skip
    parser.add_argument(
        "--no-train", action="store_true", help="train no adapters: trees grow with the one in use"
    )
    return run_tool(parser, reproduce, words)


def reproduce(arguments: argparse.Namespace) -> int:
    """Does what is not done yet, and writes the report: report.html with its plots beside it, and report.json.

    Raises:
        NotFound: A data set is not there.
        UsageError: Two data sets have one name, --compare-with names none, or one has no conversation.
        Cancelled: It was cancelled; what was done is kept.
    """
    folder = Path(arguments.output)
    data = _named([Path(one) for one in arguments.data])
    compared = _compared(arguments.compare_with, data)
    folder.mkdir(parents=True, exist_ok=True)
    commands: list[str] = []
    filters: dict[Path, str] = {}
    # All are read before the first step, which may take hours: what is wrong with the last of them shows at once.
    for name, path in data.items():
        project = folder / f"{name}.wb"
        commands.append(_project(path, project))
        filters[project] = _filter(project, arguments.limit)
    found: list[DataSet] = []
    for project, wanted in filters.items():
        name, failures = project.stem, []
        steps = [
            (words, partial(run_once, project, words))
            for words in _commands(project, wanted, arguments)
        ]
        commands += [shlex.join(words) for words, _ in steps]
        baseline = partial(_label_one_by_one, project, arguments)
        for words, step in [*steps, (["baseline", "of appendix C.1"], baseline)]:
            try:
                step()
            except Cancelled:
                raise
            except WorkbenchError as error:
                failures.append(f"{' '.join(words[:2])}: {error.message} {error.hint}".strip())
                narrate(f"{name}: {failures[-1]}")
        with OpenProject(project, read_only=True) as workspace:
            found.append(
                read_data_set(
                    workspace, name, parse_filter(wanted), compared.get(name, ""), failures
                )
            )
    write_document(document(found, commands), folder / "report.html")
    for plot in plots(found):
        (folder / plot.file).write_text(to_svg(plot), encoding="utf-8")
    values = as_json(found, commands)
    with write_beside(folder / "report.json") as part:
        part.write_text(json_text(values, indent=1) + "\n", encoding="utf-8")
    if arguments.json:
        print_json(values)
    else:
        for table in tables(found):
            print_text("\n".join(["", *_lines(table)]))
        print_text(f"\n{folder / 'report.html'}, and the same as JSON")
    return EXIT_INCOMPLETE if any(one.missing for one in found) else EXIT_DONE


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """The data sets by name.

    Raises:
        NotFound: One is not there.
        UsageError: Two have one name.
    """
    found: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise NotFound(f"There is no {path}.", "Name a file, a folder or a project.")
        name = path.resolve().name.partition(".")[0]
        if name in found:
            raise UsageError(f"Two data sets are named {name}.", "Rename one.")
        found[name] = path
    return found


def _compared(texts: Sequence[str], data: Mapping[str, Path]) -> dict[str, str]:
    """The paper's data set that each is compared with, by name.

    Raises:
        UsageError: There is none of such a name.
    """
    found = {}
    for text in texts:
        name, _, paper_data_set = text.partition("=")
        if name not in data or paper_data_set not in DATA_SETS:
            raise UsageError(
                f"--compare-with {text} names no data set, or none of the paper.",
                f"Data sets: {', '.join(data)}. The paper's: {', '.join(DATA_SETS)}.",
            )
        found[name] = paper_data_set
    return found


def _project(path: Path, project: Path) -> str:
    """Makes the project of a data set, a copy of one or what the logs are imported into, and returns the command."""
    if path.suffix == ".wb":
        if not project.exists():
            restore(str(project), str(path))
        return shlex.join(["restore", str(project), str(path)])
    if not project.exists():
        # Renamed when it is whole: an import that was stopped goes on in the part that it left.
        part = project.with_name(f".{project.stem}.part.wb")
        _run(["import", str(part), str(path)])
        part.rename(project)
    return shlex.join(["import", str(project), str(path)])


def _filter(project: Path, limit: int | None) -> str:
    """The filter that takes so many conversations at random; empty for all.

    Raises:
        NotYet: The project has no conversation.
    """
    with OpenProject(project, read_only=True) as workspace:
        rows = workspace.conversations
        count = rows.counts().conversations
        if not count:
            raise NotYet(
                f"{project} has no conversation.",
                "`workbench import PROJECT LOGS --dry-run` says what is read of logs. Remove the project, then run this"
                " again.",
            )
        if limit is None or limit >= count:
            return ""
        return draw_filter(lambda wanted: len(rows.ids(ListQuery(parse_filter(wanted)))), limit)


def draw_filter(drawn: Callable[[str], int], limit: int) -> str:
    """The filter by `draw` that takes `limit` conversations, found by bisection.

    Args:
        drawn: Number of conversations that a filter takes.
        limit: At least 1 and fewer than there are.
    """
    low, high = 0.0, 1.0
    while True:
        middle = (low + high) / 2
        wanted = f"draw<{middle!r}"
        found = drawn(wanted)
        # Of two conversations with the same number, which is as good as never, both or none are taken.
        if found == limit or middle in (low, high):
            return wanted
        low, high = (middle, high) if found < limit else (low, middle)


def _commands(project: Path, wanted: str, arguments: argparse.Namespace) -> list[list[str]]:
    """The commands for one data set, in order."""
    place = str(project)
    some = [f"--filter={wanted}"] if wanted else []
    model = ["--model", arguments.model] if arguments.model else []
    base = ["--base", arguments.model] if arguments.model else []
    adapter = [] if arguments.no_train else ["--adapter", RUN]
    complete = ["run", "complete", place, "--no-remaining", *some, *model]
    goals = ["run", "cluster", place, "--paper", "--k1", str(arguments.k1), *model]
    # Half of what the filter draws; the run of all with the first seed comes last, so that it is shown.
    half = f"--filter=draw<{float(wanted.removeprefix('draw<') or 1) / 2!r}"
    seeds = [[*goals, *some, "--seed", str(seed)] for seed in range(arguments.seeds, -1, -1)]
    grow = ["--alpha", str(arguments.alpha), "--nodes", str(arguments.nodes)]
    chosen = [f"--set={one}" for one in arguments.set]

    def trained(recipe: str, name: str) -> list[list[str]]:
        return [
            ["train", "start", place, "--recipe", recipe, "--name", name, *some, *base, *chosen],
            [*complete, "--mode", "tuned", "--paper", "--adapter", name],
        ]

    if arguments.no_train:
        tuned = [[*complete, "--mode", "tuned", "--paper"]]
    else:
        tuned = [*trained("paper", RUN), *trained("no-end-tag", RUN_WITHOUT_TAG)]
    return [
        [*complete, "--mode", "base", "--paper"],
        *tuned,
        ["run", "trees", place, "--paper", *adapter, *grow, *some, *model],
        [*goals, half],
        *seeds,
    ]


def _label_one_by_one(project: Path, arguments: argparse.Namespace) -> None:
    """Lets the model label one conversation after another, in the orders that are not done yet."""
    with OpenProject(project) as workspace:
        label_one_by_one(workspace, arguments.model, arguments.orders)


def run_once(project: Path, words: Sequence[str]) -> None:
    """Runs a command unless it was finished before, and notes that it is. One that ends with gaps is not finished: it
    runs again the next time, and skips what it has.

    Raises:
        WorkbenchError: The command failed.
    """
    command = shlex.join(words)
    with Project.open(project, read_only=True) as opened, opened.reading() as conn:
        done = settings.get(conn, DONE_KEY, [])
    if command in done:
        return
    code = _train(project, words, done) if words[0] == "train" else _run(words)
    if code == EXIT_DONE:
        with Project.open(project) as opened:
            opened.write(lambda conn: settings.put(conn, DONE_KEY, [*done, command]))


def _train(project: Path, words: Sequence[str], done: Sequence[str]) -> int:
    """Trains the adapter and returns the exit code. A training run outlives this program: one that is there already has
    finished, is running, or goes on at its last checkpoint.

    Args:
        done: The commands that were finished.

    Raises:
        NameTaken: It was trained by another command than this.
        NotYet: It is running.
        WorkbenchError: The training failed.
    """
    name = words[words.index("--name") + 1]
    here = [
        history for history in RunDirectories(project).histories() if history.run.path.name == name
    ]
    if not here:
        return _run(words)
    if any(one[0] == "train" and name in one for one in map(shlex.split, done)):
        raise NameTaken(
            f"The adapter {name} of {project} was trained with other options.",
            "Name another folder with -o.",
        )
    state = here[0].row().state
    if state == "running":
        raise NotYet(
            f"The training run {name} of {project} is running.",
            f"`workbench train status {shlex.quote(str(project))}` shows how far it is. Run this again when it has"
            " ended.",
        )
    if state == "finished":
        return EXIT_DONE
    return _run(["train", "start", str(project), "--resume", name])


def _run(words: Sequence[str]) -> int:
    """Runs a command of the program and returns its exit code; what it prints goes to standard error.

    Raises:
        WorkbenchError: It failed.
    """
    narrate(f"\nworkbench {shlex.join(words)}")
    arguments = build_parser().parse_args(list(words))
    with redirect_stdout(sys.stderr):
        result: CommandResult | int = arguments.run(arguments)
        if isinstance(result, CommandResult):
            print_result(result, json=False)
            return result.code
    return result


def _lines(table: ReportTable) -> list[str]:
    return [table.title, *table_lines(table, max_name_length=30), *table.notes]


if __name__ == "__main__":
    sys.exit(main())
