"""Models as text, as Textual `Content`, and as columns of their list. Without widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.model.records import WORKS, Fact, ModelRow, Work
from screens.widgets.formatting import Look, facts_table
from screens.widgets.row_table import Column, Piece

NAME_CHARACTERS = 48
"""Most characters that are shown of a name."""
FACT_CHARACTERS = 400
"""Most characters that are shown of a fact about a model."""
GET_MORE = "workbench models search WORDS finds more"
"""How models come from the hub, which the screen does not ask."""
DASH = "–"
"""Stands for a figure that is unknown."""
READY = Look("●", "ready", "complete")
ADAPTER = Look("◆", "adapter", "accent")
ENDPOINT = Look("⇄", "endpoint", "accent")
BROKEN = Look("✗", "unusable", "incomplete")
TOO_LARGE = Look("!", "too large", "borderline")
"""How the states of models, adapters and endpoints are shown."""


def name_of(row: ModelRow, limit: int = NAME_CHARACTERS) -> str:
    """Returns a name on one line, display-safe."""
    return one_line(row.name, limit)


def look_of(row: ModelRow) -> Look:
    """Returns how the state of a model is shown."""
    if row.problem:
        return BROKEN
    if row.kind != "model":
        return ADAPTER if row.kind == "adapter" else ENDPOINT
    return TOO_LARGE if row.fits is False else READY


def state_word(row: ModelRow) -> str:
    """Returns the state in a word or two: of a model that can be used, the format that it runs as."""
    look = look_of(row)
    if look is not READY:
        return look.word
    return f"as {one_line(row.runs_as, 12)}" if row.runs_as else look.word


def speed(value: float | None) -> str:
    """Returns the tokens a second; a dash for None."""
    return DASH if value is None else f"{value:,.0f} t/s"


def model_content(facts: Sequence[Fact]) -> Content:
    """Returns the facts about a model as a table."""
    return facts_table([(fact.name, one_line(fact.value, FACT_CHARACTERS)) for fact in facts])


def format_works(works: Sequence[Work]) -> str:
    """Returns the kinds of work that a model is used for, in words; empty if there are none."""
    if not works:
        return ""
    return "for all work" if len(works) == len(WORKS) else f"for {', '.join(works)}"


def works_to_choose(rows: Sequence[ModelRow]) -> list[tuple[tuple[Work, ...], str]]:
    """Returns the kinds of work that a model can be chosen for, each with the model in use."""
    now = {work: [name_of(row, 24) for row in rows if work in row.works] for work in WORKS}
    each: list[tuple[tuple[Work, ...], str]] = [
        ((work,), f"{what} · now {', '.join(now[work]) or 'none'}") for work, what in WORKS.items()
    ]
    return [(tuple(WORKS), "everything this project does"), *each]


def format_use(name: str, works: Sequence[Work]) -> str:
    """Returns the notice after a model was chosen."""
    text = "everything" if len(works) == len(WORKS) else ", ".join(WORKS[work] for work in works)
    return f"{one_line(name, 60)} does {text} of this project; --model still names another."


def summary(rows: Sequence[ModelRow], busy: str) -> Content:
    """Returns the line above the list."""
    kinds = Counter(row.kind for row in rows)
    parts: list[tuple[str, str] | str] = [
        (number_format.counted(kinds["model"], "model"), "bold"),
        f" · {number_format.counted(kinds['adapter'], 'adapter')}",
    ]
    if kinds["endpoint"]:
        parts.append(f" · {number_format.counted(kinds['endpoint'], 'endpoint')}")
    if busy:
        parts.append((f" · {one_line(busy)}", "$tone-accent"))
    else:
        parts.append((f" · {GET_MORE}", "$tone-muted"))
    return Content.assemble(*parts)


def as_text(row: ModelRow, facts: Sequence[Fact]) -> str:
    """Returns a model as tab-separated lines, for the clipboard."""
    return "\n".join([row.name, *(f"{fact.name}\t{fact.value}" for fact in facts)])


def model_columns() -> list[Column[ModelRow]]:
    """Returns the name, state, sizes, speed, and where it is from."""

    def state(row: ModelRow) -> Sequence[Piece]:
        """Returns the state with its sign."""
        look = look_of(row)
        return [(f"{look.glyph} {state_word(row)}", look.tone_class)]

    def source(row: ModelRow) -> Sequence[Piece]:
        """Returns the work that it is used for, and its note or origin."""
        detail = (one_line(row.note or row.source, 120), "tone--muted")
        works = format_works(row.works)
        return [(f"{works} · ", "tone--accent"), detail] if works else [detail]

    def memory(row: ModelRow) -> Sequence[Piece]:
        """Returns the memory that the model needs, marked where the machine has less."""
        tone = "tone--borderline" if row.fits is False else ""
        return [(number_format.size(row.memory), tone if row.memory is not None else "tone--muted")]

    return [
        Column("name", "model", 16, lambda row: [(one_line(row.name, 200), "")], flexible=True),
        Column("state", "status", 14, state),
        Column("size", "on disk", 9, lambda row: [(number_format.size(row.size), "")],
               right=True, keep=8),
        Column("memory", "memory", 9, memory, right=True, keep=7),
        Column("speed", "speed", 10, lambda row: [(speed(row.tokens_per_s), "")],
               right=True, keep=6),
        Column("origin", "from", 8, lambda row: [(one_line(row.origin, 20), "tone--muted")], keep=5),
        Column("license", "license", 12,
               lambda row: [(one_line(row.license, 30) or DASH, "tone--muted")], keep=4),
        Column("source", "what it is", 34, source, keep=3),
    ]  # fmt: skip
