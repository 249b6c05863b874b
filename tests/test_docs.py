"""The pages of the project, and the lists of its tests, name only what exists."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from engine.base.errors import UsageError
from tests import command_reference
from tests.conftest import LONGEST
from workbench.cli import _with_command, _with_joined_filters, build_parser

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        *(REPOSITORY / "docs").rglob("*.md"),
    ]
)

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_PICTURE = re.compile(r'<(?:img src|source [^>]*srcset)="([^"]+)"')
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
_PATH = re.compile(r"(?<![\w./~-])(?:engine|screens|workbench|training|tests|docs|\.ci)/[\w./-]*")
_PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+(?:[./_]|$)")
"""A part in capitals (`engine/formats/NAME.py`) is for the reader to fill in."""
_MODULE = re.compile(r"python (?:-\S+ )*-m ((?:engine|screens|workbench|training|tests)(?:\.\w+)*)")
_BLOCK = re.compile(r"^```(?:sh|bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_OPEN = re.compile(
    r"\.\.\.|…|\||\[|--help|^workbench help|\b(?:COMMAND|WHAT|SHELL)\b|^workbench PROJECT"
)
"""A command in which something is for the reader to fill in, beside names of files."""


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, made the way GitHub makes them."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{words}-{seen[words]}" if seen[words] else words)
        seen[words] += 1
    return frozenset(found)


def test_links_lead_somewhere() -> None:
    """Every relative link and picture of a page leads to a file, and to a heading where it names one."""
    broken = []
    for page in PAGES:
        text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
        for link in [*_LINK.findall(text), *_PICTURE.findall(text)]:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            file = (page.parent / target).resolve() if target else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page}: {link}")
    assert not broken


def test_paths_exist() -> None:
    """Every path of the repository that a page names exists."""
    missing = []
    for page in PAGES:
        for path in _PATH.findall(page.read_text(encoding="utf-8")):
            named = path.rstrip(".")
            if not _PLACEHOLDER.search(named) and not (REPOSITORY / named).exists():
                missing.append(f"{page}: {named}")
    assert not missing


def test_modules_exist() -> None:
    """Every module that a page runs with `python -m` exists."""
    named = {name for page in PAGES for name in _MODULE.findall(page.read_text(encoding="utf-8"))}
    assert not [module for module in named if find_spec(module) is None]


def test_commands_exist() -> None:
    """Every command in an example is complete and has these options; one in a sentence may leave out what it works
    on."""
    parser = build_parser()
    wrong = []
    for page in PAGES:
        if page == command_reference.PAGE:
            continue  # generated out of the parser
        text = page.read_text(encoding="utf-8")
        for command, whole in [*_examples(text), *_mentions(text)]:
            try:
                words = _with_command(shlex.split(command)[1:])
                parser.parse_args(_with_joined_filters(words))
            except UsageError as error:
                if whole or "arguments are required" not in error.message:
                    wrong.append(f"{page}: {command}: {error.message}")
    assert not wrong


def _examples(text: str) -> Iterator[tuple[str, bool]]:
    """The commands in the blocks of a page, without comments, pipes and redirections."""
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.split(r"\s#|\s[|<>]|\s&&|;", line)[0].strip()
            if command.startswith("workbench ") and not _OPEN.search(command):
                yield command, True


def _mentions(text: str) -> Iterator[tuple[str, bool]]:
    """The commands in the sentences of a page."""
    for code in _CODE.findall(_FENCE.sub("", text)):
        command = re.split(r"\s[|<>]|;", code.strip("`"))[0]
        if command.startswith("workbench ") and not _OPEN.search(command):
            yield command, False


def test_every_variable_is_described() -> None:
    """The page of files has each variable of the environment that begins with WORKBENCH, and no other."""
    read = re.compile(r"WORKBENCH_[A-Z]+")
    sources = (
        path
        for room in ("engine", "screens", "workbench", "training")
        for path in (REPOSITORY / room).rglob("*.py")
    )
    known = {name for path in sources for name in read.findall(path.read_text(encoding="utf-8"))}
    assert (
        set(read.findall((REPOSITORY / "docs/reference/files.md").read_text(encoding="utf-8")))
        == known
    )


def test_guides_name_code_that_is_there() -> None:
    """Each class, constant and function of a guide for developers is in a file that the guide names."""
    elsewhere = {"NAME", "DataTable"}
    missing = []
    for page in sorted((REPOSITORY / "docs/extend").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        files = [REPOSITORY / path for path in _PATH.findall(text) if path.endswith(".py")]
        code = "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())
        for named in _CODE.findall(_FENCE.sub("", text)):
            name = re.fullmatch(r"`(?:self\.)?(_\w+|[A-Z]\w+|\w+(?=\())(?:\(.*\))?`", named)
            if name and name[1] not in elsewhere and not re.search(rf"\b{name[1]}\b", code):
                missing.append(f"{page.name}: {name[1]}")
    assert missing == []


def test_decisions_have_an_index() -> None:
    """The index of the decisions lists each record once, in order."""
    folder = REPOSITORY / "docs/decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    listed = re.findall(r"\]\((\d[^)]*\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == records


def test_longest_test_files_exist() -> None:
    """The files that `conftest.py` puts first exist, so that none is forgotten when it moves."""
    assert [name for name in LONGEST if not (REPOSITORY / "tests" / name).exists()] == []
