"""The reference of what commands print with `--json`, from what they print; `python -m tests.json_reference` writes it.

Each command is run, and the shape of its result is written down: names and kinds of values. The first commands need no
model, so that a test can run them again; the others take minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.command_line import workbench
from workbench.cli import build_parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "json.md"

WITHOUT_MODEL = """
demo d --samples-only --count 24
import d/demo.wb d/samples.jsonl
import d/demo.wb d/samples.jsonl --dry-run
run cluster d/demo.wb --no-labels
run stability d/demo.wb
run check d/demo.wb
run assign d/demo.wb
status d/demo.wb
list d/demo.wb --limit 2
list d/demo.wb --by goal
goals list d/demo.wb
goals proposals d/demo.wb --limit 2
goals rename d/demo.wb 1 First
goals pin d/demo.wb 1
goals undo d/demo.wb
goals merge d/demo.wb 1 2
goals apart d/demo.wb 2 3
goals themes d/demo.wb
goals split d/demo.wb 1
goals undo d/demo.wb
goals move d/demo.wb 2 desk-0004 desk-0005 desk-0006 desk-0007
scores d/demo.wb
answers d/demo.wb succeeded --give desk-0004 yes --annotator Ada
answers d/demo.wb succeeded
answers d/demo.wb succeeded --undo
questions d/demo.wb
questions d/demo.wb --agreement succeeded
ask d/demo.wb refused
questions d/demo.wb --rates refused
calibrate d/demo.wb
compare d/demo.wb --by source
report d/demo.wb -o r.html --redact
export d/demo.wb table -o t.jsonl
export d/demo.wb conversations --redact -o c.jsonl
export d/demo.wb decisions -o decisions.jsonl
backup d/demo.wb
restore d/demo.wb
repair d/demo.wb -o repaired.wb
validate d/demo.wb goals
prompts d/demo.wb
prompts d/demo.wb base
models use d/demo.wb
formats
keys
completion bash
train status d/demo.wb
"""
"""Commands that take seconds together."""

WITH_MODEL = """
demo w --headless
demo m --samples-only --count 60
run check m/demo.wb
run cluster m/demo.wb --no-labels --decide auto
run complete m/demo.wb --no-remaining
run trees m/demo.wb --limit 1 --alpha .5 --max-tokens 2
models list
doctor m/demo.wb
answers m/demo.wb succeeded --from truth.complete
answers m/demo.wb succeeded {truth} --annotator Ada
questions m/demo.wb --agreement succeeded
ask m/demo.wb succeeded --by examples
list m/demo.wb --limit 3
calibrate m/demo.wb
scores m/demo.wb
status m/demo.wb
compare m/demo.wb --by source
compare m/demo.wb --a turns>3 --b turns<4
why m/demo.wb --a turns>3
validate m/demo.wb all
validate m/demo.wb completeness
validate m/demo.wb trees
unusual-trees m/demo.wb
goals list m/demo.wb
run complete m/demo.wb --estimate
run complete m/demo.wb --limit 3
run trees m/demo.wb --limit 1 --alpha .5 --max-tokens 2
tree m/demo.wb {0:1} --alpha .3 --max-tokens 3
train start m/demo.wb --estimate
"""
"""Commands that need a model or scores; `{0:20}` stands for the ids of the first twenty conversations,
`{truth}` for the answers that came with twenty."""


MAPS = frozenset(
    {
        "added", "by_sign", "columns", "conflicts", "correlations", "decisions", "features", "figures", "filters",
        "kept_from_models", "languages", "means", "not_read", "orphans", "people", "personal",
        "reasons", "redacted", "rows", "undated", "unknown_parts",
    }
)  # fmt: skip
"""Objects whose names are data, such as names of people."""

ELSEWHERE = {
    "goals clusterings": "`shown`, the id of the one that is shown, and `clusterings`, a list with its settings and"
    " numbers of each: [goals](../goals.md)",
    "goals decide": "the number of pairs that were `merged`, and the number of `groups` now",
    "help": "a list with `name`, `kind`, `text` of each thing of that name",
    "models add": "as `models` of `models list`",
    "models allow": "what a run would send to the model: requests, characters, personal data and the first request in"
    " full: [models](../models.md)",
    "models pull": "`pulled`: name, path, size, SHA-256, source and license of each model",
    "models remove": "`removed`, the name; `done`, what was deleted or forgotten",
    "models tune": "`tuning`: the format that was `chosen`, its `tokens_per_s` and `gain` over the file as shipped, and"
    " the `candidates`, each with its `agreement` with F32",
    "models search": "`found`, a list of repositories; with OWNER/NAME its `files`",
    "goals themes": "as `goals list`",
    "goals review": "how many were `reviewed` now, and the `decisions` that are left, each as `export decisions` has"
    " it",
    "open": "as `demo`: `workbench open FILE --headless --json`",
    "simulate forms": "the rows of `simulate results` for what was played, its `source`, and the `plays`,"
    " each with its counts and its conversation: [simulation](../simulation.md#forms)",
    "simulate recsim": "as `simulate forms`: [RecLLMSim](../recllmsim.md)",
    "simulate results": "`aptitude`, a row for each task, condition and model:"
    " [simulation](../simulation.md#sharded-conversations);"
    " `forms`, one for each form, model and variant: [simulation](../simulation.md#forms)",
    "simulate sharded": "as `simulate forms`: [simulation](../simulation.md#sharded-conversations)",
    "train delete": "`deleted`, the name of the run",
    "train start": "with `--estimate` tokens, steps, memory and seconds; else the run, as in `train status`",
    "train stop": "the run, as in `train status`",
    "train use": "`adapter`, the name of the run; null for that of the program",
    "watch": "one line of JSON for each turn: [watch](../watch.md)",
}
"""Commands whose results the page does not list by name."""


class Row(NamedTuple):
    """One name in a result: where it stands, the kinds of its values, whether it is always there, and whether the page
    refers to another command for what is in it."""

    path: str
    kinds: frozenset[str]
    always: bool
    refers: bool = False


def main() -> int:
    """Writes the page, in folders of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "DATA", "CACHE"):
            os.environ[f"WORKBENCH_{name}"] = str(Path(folder) / name)
        os.chdir(folder)
        written = page(printed([*lines(WITHOUT_MODEL), *lines(WITH_MODEL)]))
    PAGE.write_text(written, encoding="utf-8")
    return 0


def lines(commands: str) -> list[str]:
    """The commands, one each."""
    return commands.split("\n")[1:-1]


def printed(commands: Iterable[str]) -> dict[str, list[Any]]:
    """What each command printed, by its name, in the current folder."""
    found: dict[str, list[Any]] = defaultdict(list)
    for command in commands:
        words = list(_filled(command))
        done = workbench(*words, "--json")
        if done.returncode not in (0, 3):
            raise ValueError(f"{command}: {done.stderr.decode()}")
        text = done.stdout.decode()
        try:
            results = [json.loads(text)]
        except ValueError:
            results = [json.loads(line) for line in text.splitlines()]
        found[_name(words)] += results
    return found


def rows(results: Sequence[Any]) -> list[Row]:
    """The names in the results of one command, each below what it stands in."""
    kinds: dict[str, set[str]] = {}
    present: Counter[str] = Counter()
    inside: Counter[str] = Counter()

    def look(value: Any, path: str) -> None:
        kinds.setdefault(path, set()).add(_kind(value))
        if isinstance(value, list):
            for one in value:
                look(one, f"{path}[]")
        elif isinstance(value, dict):
            inside[path] += 1
            free = _last(path) in MAPS and not path.endswith("[]")
            for name in {"NAME"} if free and value else value:
                present[f"{path}.{name}" if path else name] += 1
            for key, one in value.items():
                name = "NAME" if free else key
                look(one, f"{path}.{name}" if path else name)

    for result in results:
        look(result, "")
    place = {path: number for number, path in enumerate(kinds)}
    return [
        Row(
            path,
            frozenset(kinds[path]),
            _last(path) == "NAME" or present[path] == inside[_parent(path)],
        )
        for path in sorted(kinds, key=lambda path: [place[one] for one in _line(path)])
        if path and not path.endswith("[]")
    ]


def page(found: Mapping[str, list[Any]]) -> str:
    """The page in Markdown."""
    parts = [
        "# JSON",
        "What commands print with `--json`, on standard output: one object, and of `list` and `watch` one a line."
        " Names keep their names and kinds; others may be added"
        " ([what stays](../stability.md)). `null` stands where there is no value. A probability, a share and a rate are"
        " numbers from 0 to 1; times are ISO 8601 in UTC. If a command fails, the last line of standard error is"
        ' `{"error": ..., "hint": ..., "exit_code": ..., "code": ...}` ([exit codes](files.md#exit-codes)).',
        "`a.b` is `b` in the object `a`, `a[]` each value of the list `a`, `NAME` any name. `?` marks what is there"
        " only where the project has it. The kinds are those of an example; `null` can stand for any. The forms of"
        " `workbench export` are on [their own page](../export.md).",
        "This page is generated out of what the commands print: `python -m tests.json_reference`.",
    ]
    told: dict[frozenset[str], str] = {}
    for name in sorted(found):
        parts += [f"## workbench {name}", *_section(name, rows(found[name]), told)]
    parts += ["## Elsewhere", "| command | |\n|---|---|\n" + "\n".join(_elsewhere())]
    return "\n\n".join(parts) + "\n"


def documented(text: str) -> dict[str, dict[str, Row]]:
    """The rows of a page by command and path."""
    found: dict[str, dict[str, Row]] = {}
    for section in text.split("\n## workbench ")[1:]:
        name, _, rest = section.partition("\n")
        found[name] = {}
        for line in rest.partition("\n## ")[0].splitlines():
            if line.startswith("| `"):
                path, kinds = (cell.strip() for cell in line.strip("|").split("|"))
                kinds, refers, _ = kinds.partition(", as `")
                kind = frozenset(kinds.split(", "))
                row = Row(path.strip("`? "), kind, "?" not in path, bool(refers))
                found[name][row.path] = row
    return found


def differences(results: Sequence[Any], page: Mapping[str, Row]) -> list[str]:
    """What a command printed otherwise than its page says; a project without models has fewer kinds of values."""
    found = {row.path: row for row in rows(results)}
    told = [path for path, row in page.items() if row.refers]
    wrong = [
        f"{path} is not on the page, or is another kind"
        for path, row in found.items()
        if not path.startswith(tuple(f"{one}{mark}" for one in told for mark in ".["))
        and not (path in page and row.kinds <= page[path].kinds)
    ]
    parents = {_parent(path) for path in found}
    missing = [
        f"{path} is missing"
        for path, row in page.items()
        if row.always and path not in found and _parent(path) in parents and _last(path) != "NAME"
    ]
    return wrong + missing


def commands() -> set[str]:
    """The names of all commands, as the page has them."""
    return {
        parser.prog.removeprefix("workbench ")
        for parser in build_parser().with_commands()
        if not any(isinstance(each, argparse._SubParsersAction) for each in parser._actions)
    }


def _section(name: str, found: list[Row], told: dict[frozenset[str], str]) -> list[str]:
    """The table of one command; an object that another command has too is told once."""
    below: dict[str, list[str]] = defaultdict(list)
    for row in found:
        below[_parent(row.path)].append(_last(row.path))
    cells: list[str] = []
    skipped: tuple[str, ...] = ()
    for row in found:
        if skipped and row.path.startswith(skipped):
            continue
        kinds = sorted(row.kinds)
        inner = next((part for part in (row.path, f"{row.path}[]") if below[part]), row.path)
        names = frozenset(below[inner])
        if len(names) > 3:
            if names in told:
                kinds.append(f"as {told[names]}")
                skipped = (*skipped, f"{row.path}.", f"{row.path}[")
            else:
                told[names] = f"`{inner}` of [{name}](#workbench-{name.replace(' ', '-')})"
        mark = "" if row.always else " ?"
        cells.append(f"| `{row.path}`{mark} | {', '.join(kinds)} |")
    return ["| name | kind |\n|---|---|\n" + "\n".join(cells)]


def _elsewhere() -> Iterator[str]:
    for name, text in ELSEWHERE.items():
        yield f"| `{name}` | {text} |"


def _filled(command: str) -> Iterator[str]:
    for word in command.split():
        if word == "{truth}":
            told = workbench("answers", "m/demo.wb", "succeeded", "--json").stdout
            for row in json.loads(told)["answers"][:20]:
                yield from ("--give", row["conversation"], row["value"])
        elif word.startswith("{"):
            first, last = map(int, word.strip("{}").split(":"))
            listed = workbench("list", "m/demo.wb", "--json").stdout.decode().splitlines()
            yield from [json.loads(line)["id"] for line in listed[first:last]]
        else:
            yield word


def _name(words: Sequence[str]) -> str:
    known = commands()
    return next(name for name in (" ".join(words[:2]), words[0]) if name in known)


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "number", float: "number", str: "text", type(None): "null"}
    return kinds.get(type(value)) or ("list" if isinstance(value, list) else "object")


def _parent(path: str) -> str:
    return path[:-2] if path.endswith("[]") else path.rpartition(".")[0]


def _line(path: str) -> list[str]:
    """What a name stands in, from the outermost, and the name itself."""
    return [*_line(_parent(path)), path] if path else []


def _last(path: str) -> str:
    return path.rpartition(".")[2].replace("[]", "")


if __name__ == "__main__":
    sys.exit(main())
