"""`workbench help TOPIC`: an error code, a word of the glossary, a field of filters, or a page of the documentation."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.markdown import Markdown

from engine.base import errors
from engine.base.errors import NotFound, WorkbenchError
from engine.base.text import one_line
from engine.conversations.filter_fields import FIELDS
from engine.conversations.filters import usage_hint
from workbench.arguments import argument, takes
from workbench.command_result import CommandResult, exit_code

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED_PAGES, CHECKOUT_PAGES = PACKAGE / "pages", PACKAGE.parent / "docs"
"""Where the pages are: the wheel has those of `docs/`, a checkout has `docs/` itself."""
PAGE_SUFFIX = ".md"
"""The ending of the files of pages."""
MAX_PAGE_COLUMNS = 100
"""Columns of a page on a wide terminal."""
ERROR_PARAGRAPHS = ("Why", "What to do")
"""Paragraphs of an error's docstring after the first one, which says what happened."""
ALL_ERRORS, ALL_TOPICS = "errors", "topics"
"""Names of the topics that list all error codes, and all topics."""

_MARKDOWN_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
"""A link or a picture in Markdown; the group is its text."""
_CODE_PATH = re.compile(r"(?: \(|, )?`(?:engine|screens|workbench|training)/[^`]*`\)?")
"""A path in the code, with the parenthesis or comma before it."""
_ERRORS_PAGE_HEAD = """\
# Errors

Every error has a code. On a terminal it stands below the message, with `--json` in the field `code`, on the screens in
the dialog; in Python it is `error.code`. `workbench help CODE` shows what stands here. Codes stay; messages may change.

This page is generated from `engine/base/errors.py`: `python -m tests.command_reference`.

"""
"""What stands before the codes on the page of errors, in Markdown."""


class Topic(NamedTuple):
    """Something that help explains: its name, what kind of thing it is, and the explanation in Markdown."""

    name: str
    kind: str
    text: str


@takes(
    argument(
        "topic",
        nargs="+",
        metavar="TOPIC",
        help="a command, an error code, a word of the glossary, a field of filters or a page; `topics` lists them,"
        " `workbench help` lists commands",
    )
)
def explain(arguments: argparse.Namespace) -> CommandResult:
    """Returns what is known of a topic; `workbench.cli` shows the help of commands.

    Raises:
        NotFound: Nothing is known of it.
    """
    name = " ".join(arguments.topic)
    topics = topics_of(name)
    if not topics:
        names = (*pages(), *glossary(), *FIELDS, *error_classes())
        similar = " or ".join(get_close_matches(name, names, n=3))
        question = f"Did you mean {similar}? " if similar else ""
        raise NotFound(
            f"Nothing is known of “{one_line(name, 60)}”.",
            f"{question}`workbench help topics` lists what is.",
        )
    text = "\n".join(topic.text for topic in topics)
    drawings: list[RenderableType] = []
    for topic in topics:
        page = Markdown(topic.text, hyperlinks=False)
        drawings += [Constrain(page, MAX_PAGE_COLUMNS), ""]
    return CommandResult(
        [text],
        {"topics": [topic._asdict() for topic in topics]},
        drawing=Group(*drawings) if sys.stdout.isatty() else None,
    )


def topics_of(name: str) -> list[Topic]:
    """Returns the topics with a name; a page can be named with `.md`, which tells it from a command of its name."""
    plain = name.lower().removesuffix(PAGE_SUFFIX)
    if plain == ALL_TOPICS:
        return [Topic(ALL_TOPICS, "list", topic_list())]
    if plain == ALL_ERRORS:
        return [Topic(ALL_ERRORS, "page", errors_page())]
    topics = [
        Topic(code, "error", error_text(error_class))
        for code, error_class in error_classes().items()
        if code.lower() == plain
    ]
    if name.lower() == plain:
        topics += [
            Topic(word, "word", f"**{word}** ({section}): {meaning}\n")
            for word, (section, meaning) in glossary().items()
            if word.lower() == plain
        ]
        if field := FIELDS.get(plain):
            meaning = f"{field.help}. {usage_hint(field)}"
            topics.append(Topic(plain, "word", f"**{plain}:** (field of filters) {meaning}\n"))
    page = pages().get(plain)
    if page is not None:
        topics.append(Topic(page.stem, "page", plain_links(page.read_text("utf-8"))))
    return topics


def topic_list() -> str:
    """Returns all topics, as Markdown."""
    lines = ["# Topics of `workbench help`", "", "Pages:", ""]
    lines += [f"- `{name}{PAGE_SUFFIX}`: {_page_title(page)}" for name, page in pages().items()]
    lines += [f"- `{ALL_ERRORS}`: all error codes", "", "Words of the glossary:", ""]
    lines += [", ".join(glossary()), "", "Fields of filters:", "", ", ".join(FIELDS), ""]
    lines += ["Error codes:", "", ", ".join(error_classes()), ""]
    return "\n".join(lines)


def pages() -> dict[str, Path]:
    """Returns the pages of the documentation by the names of their files."""
    folder = INSTALLED_PAGES if INSTALLED_PAGES.is_dir() else CHECKOUT_PAGES
    guides, rest = folder.glob(f"guide/*{PAGE_SUFFIX}"), folder.glob(f"*{PAGE_SUFFIX}")
    # A page says more than a guide of the same name, so it takes its place.
    return {path.stem: path for path in (*sorted(guides), *sorted(rest))}


def plain_links(text: str) -> str:
    """Returns a page for a terminal: links become their text, and paths in the code are left out."""
    return _CODE_PATH.sub("", _MARKDOWN_LINK.sub(r"\1", text))


def _page_title(page: Path) -> str:
    """Returns the first heading of a page."""
    with page.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


# The glossary


def glossary() -> dict[str, tuple[str, str]]:
    """Returns section and meaning of each word of the glossary, by the word; the words of one row share them."""
    entries: dict[str, tuple[str, str]] = {}
    section = ""
    page = pages().get("glossary")
    for line in page.read_text("utf-8").splitlines() if page else ():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| word |"):
            words, _, meaning = line.strip("| ").partition(" | ")
            for word in plain_links(words).replace("`", "").split(", "):
                entries[word] = (section, plain_links(meaning))
    return entries


# Errors


def error_classes() -> dict[str, type[WorkbenchError]]:
    """Returns the classes of errors by their codes, in the order of `engine.base.errors`."""
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, WorkbenchError)
    }


def errors_page() -> str:
    """Returns the page on all codes, in Markdown."""
    return _ERRORS_PAGE_HEAD + "\n".join(map(error_text, error_classes().values()))


def error_text(error_class: type[WorkbenchError]) -> str:
    """Returns what an error means, why it happens and what to do, from the docstring of its class, in Markdown."""
    return "\n".join([f"## {error_class.__name__}", "", *_error_paragraphs(error_class)])


def _error_paragraphs(error_class: type[WorkbenchError]) -> Iterator[str]:
    """Yields the paragraphs of an error's docstring, and its exit code."""
    for paragraph in (inspect.getdoc(error_class) or "").split("\n\n"):
        text = " ".join(paragraph.split())
        heading, _, rest = text.partition(": ")
        if heading in ERROR_PARAGRAPHS:
            yield f"*{heading}:* {rest[:1].upper()}{rest[1:]}\n"
        elif not heading.startswith(("Args", "Attributes")):
            yield text + "\n"
    yield f"Exit code: {exit_code(error_class)}\n"
