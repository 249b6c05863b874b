"""`workbench help TOPIC`: an error code, a word of the glossary, a field of filters, or a page of the documentation."""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
from collections.abc import Iterator
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
ERRORS, TOPICS = "errors", "topics"

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE_PATH = re.compile(r"(?: \(|, )?`(?:engine|screens|workbench|training)/[^`]*`\)?")


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
        topic_names = [TOPICS, ERRORS, *codes(), *glossary(), *FIELDS, *pages()]
        similar_names = difflib.get_close_matches(name, topic_names, n=3)
        suggestion = f"Similar: {', '.join(similar_names)}. " if similar_names else ""
        raise NotFound(
            f"Nothing is known of “{one_line(name, 60)}”.",
            f"{suggestion}`workbench help topics` lists what is.",
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
    """Returns what the topics of a name say; the name of a page may end in `.md`, which tells it from a command."""
    plain = name.lower().removesuffix(PAGE_SUFFIX)
    if plain == TOPICS:
        return [Topic(TOPICS, "list", topic_list())]
    if plain == ERRORS:
        return [Topic(ERRORS, "page", errors_page())]
    topics = [
        Topic(code, "error", error_text(kind))
        for code, kind in codes().items()
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
    lines += [f"- `{name}{PAGE_SUFFIX}`: {_title(page)}" for name, page in pages().items()]
    lines += [f"- `{ERRORS}`: all error codes", "", "Words of the glossary:", ""]
    lines += [", ".join(glossary()), "", "Fields of filters:", "", ", ".join(FIELDS), ""]
    lines += ["Error codes:", "", ", ".join(codes()), ""]
    return "\n".join(lines)


def pages() -> dict[str, Path]:
    """Returns the pages of the documentation by the names of their files."""
    folder = INSTALLED_PAGES if INSTALLED_PAGES.is_dir() else CHECKOUT_PAGES
    guides, rest = folder.glob(f"guide/*{PAGE_SUFFIX}"), folder.glob(f"*{PAGE_SUFFIX}")
    # A page says more than a guide of the same name, so it takes its place.
    return {path.stem: path for path in (*sorted(guides), *sorted(rest))}


def plain_links(text: str) -> str:
    """Returns a page without what only a browser can follow: links are their text, and places in the code are left
    out.
    """
    return _CODE_PATH.sub("", _LINK.sub(r"\1", text))


def _title(page: Path) -> str:
    """Returns the first heading of a page."""
    with page.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


# The glossary


def glossary() -> dict[str, tuple[str, str]]:
    """Returns the words of the glossary, each with its section and its meaning; of a row of words each is one."""
    words_by_name: dict[str, tuple[str, str]] = {}
    section = ""
    page = pages().get("glossary")
    for line in page.read_text("utf-8").splitlines() if page else ():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| word |"):
            words, _, meaning = line.strip("| ").partition(" | ")
            for word in plain_links(words).replace("`", "").split(", "):
                words_by_name[word] = (section, plain_links(meaning))
    return words_by_name


# Errors


def codes() -> dict[str, type[WorkbenchError]]:
    """Returns the classes of errors by their codes, in the order of `engine.base.errors`."""
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, WorkbenchError)
    }


def errors_page() -> str:
    """Returns the page on all codes, in Markdown."""
    return _ERRORS_PAGE_HEAD + "\n".join(error_text(kind) for kind in codes().values())


def error_text(kind: type[WorkbenchError]) -> str:
    """Returns a code, what it stands for, why it happens and what to do, from the docstring of its class."""
    return "\n".join([f"## {kind.__name__}", "", *_paragraphs(kind)])


def _paragraphs(kind: type[WorkbenchError]) -> Iterator[str]:
    """Yields the paragraphs of an error's docstring, and its exit code."""
    for paragraph in (inspect.getdoc(kind) or "").split("\n\n"):
        first, _, rest = " ".join(paragraph.split()).partition(": ")
        if first in ERROR_PARAGRAPHS:
            yield f"*{first}:* {rest[:1].upper()}{rest[1:]}\n"
        elif not first.startswith(("Args", "Attributes")):
            yield " ".join(paragraph.split()) + "\n"
    yield f"Exit code: {exit_code(kind)}\n"


_ERRORS_PAGE_HEAD = """\
# Errors

Every error has a code. On a terminal it stands below the message, with `--json` in the field `code`, on the screens in
the dialog; in Python it is `error.code`. `workbench help CODE` shows what stands here. Codes stay; messages may change.

This page is generated from `engine/base/errors.py`: `python -m tests.command_reference`.

"""
