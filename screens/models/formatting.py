"""Models and pulls as text, as Textual `Content`, and as columns of their list. Without widgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.model.records import (
    WORKS,
    Fact,
    HubFile,
    HubModel,
    HubPage,
    ModelRow,
    PullRow,
    PullState,
    Recommended,
    RecommendedSet,
    Work,
)
from screens.widgets.formatting import Look, facts_table
from screens.widgets.row_table import Column, Piece

NAME_CHARACTERS = 48
"""Most characters that are shown of a name."""
FACT_CHARACTERS = 400
"""Most characters that are shown of a fact about a model."""
FILE_CHARACTERS = 38
"""Most characters that are shown of the name of a file in a repository."""
DASH = "–"
"""Stands for a figure that is unknown."""
BAR_WIDTH = 16
"""Cells of the bar that shows how much of a pull is done."""
PULL_LOOKS: dict[PullState, Look] = {
    "waiting": Look("▸", "begins", "accent"),
    "pulling": Look("▸", "pulling", "accent"),
    "checking": Look("▸", "checking", "accent"),
    "paused": Look("◌", "paused", "borderline"),
    "failed": Look("✗", "failed", "incomplete"),
    "done": Look("✓", "done", "complete"),
}
"""How each state of a pull is shown."""
READY = Look("●", "ready", "complete")
ADAPTER = Look("◆", "adapter", "accent")
ENDPOINT = Look("⇄", "endpoint", "accent")
BROKEN = Look("✗", "unusable", "incomplete")
TOO_LARGE = Look("!", "too large", "borderline")
"""How the states of models, adapters and endpoints are shown."""
WORKING: frozenset[PullState] = frozenset({"waiting", "pulling", "checking"})
"""The states of a pull that goes on by itself."""
Item = ModelRow | PullRow
"""A row of the list."""


def name_of(row: ModelRow | PullRow, limit: int = NAME_CHARACTERS) -> str:
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


def share(row: PullRow) -> float:
    """Returns how much of a pull is done, from 0 to 1."""
    return min(1.0, row.done / row.total) if row.total else 0.0


def pull_word(row: PullRow) -> str:
    """Returns the state of a pull with its share."""
    look = PULL_LOOKS[row.state]
    return look.word if row.state in ("done", "waiting") else f"{look.word} {100 * share(row):.0f}%"


def speed(value: float | None) -> str:
    """Returns the tokens a second; a dash for None."""
    return DASH if value is None else f"{value:,.0f} t/s"


def headline(row: PullRow) -> Content:
    """Returns the state of a pull in one line."""
    look = PULL_LOOKS[row.state]
    parts: list[tuple[str, str] | str] = [
        (f"{look.glyph} {pull_word(row)} ", f"bold {look.tone_variable}"),
        (number_format.bar(share(row), BAR_WIDTH), look.tone_variable),
        f" {number_format.size(row.done)} of {number_format.size(row.total)}",
    ]
    if row.rate is not None:
        parts.append(
            f" · {row.rate / 1e6:,.1f} MB/s · {number_format.duration(row.seconds_left)} left"
        )
    if row.redirect:
        parts.append((f" · {one_line(row.redirect, 80)}", "$tone-muted"))
    return Content.assemble(*parts)


def pull_content(row: PullRow) -> Content:
    """Returns everything about a pull."""
    blocks = [headline(row)]
    if row.problem:
        blocks.append(
            Content.assemble(
                (one_line(row.problem, FACT_CHARACTERS), "$tone-incomplete"),
                (f"\n{one_line(row.hint, FACT_CHARACTERS)}", "$tone-accent"),
            )
        )
    blocks.append(
        facts_table(
            [
                ("repository", one_line(row.repository, FACT_CHARACTERS)),
                ("file", one_line(row.file, FACT_CHARACTERS)),
            ]
        )
    )
    what = {
        "paused": "p goes on where it stopped, D gives it up",
        "failed": "p tries again where it stopped, D gives it up",
    }.get(row.state, "p pauses it; it pauses too when you quit, and goes on where it stopped")
    if row.state != "done":
        blocks.append(Content.styled(what, "$tone-muted"))
    return Content("\n").join(blocks)


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
        ((work,), f"{what} · now {', '.join(now[work]) or 'one that is gone'}")
        for work, what in WORKS.items()
    ]
    return [(tuple(WORKS), "everything this project does"), *each]


def format_use(name: str, works: Sequence[Work]) -> str:
    """Returns the notice after a model was chosen."""
    text = "everything" if len(works) == len(WORKS) else ", ".join(WORKS[work] for work in works)
    return f"{one_line(name, 60)} does {text} of this project; --model still names another."


def summary(rows: Sequence[ModelRow], pulls: Sequence[PullRow], busy: str) -> Content:
    """Returns the line above the list."""
    kinds = Counter(row.kind for row in rows)
    parts: list[tuple[str, str] | str] = [
        (number_format.counted(kinds["model"], "model"), "bold"),
        f" · {number_format.counted(kinds['adapter'], 'adapter')}",
    ]
    if kinds["endpoint"]:
        parts.append(f" · {number_format.counted(kinds['endpoint'], 'endpoint')}")
    working = [pull for pull in pulls if pull.state in WORKING]
    resting = [pull for pull in pulls if pull.state in ("paused", "failed")]
    if working:
        first, *others = working
        parts.append((f" · pulling {name_of(first)}", "$tone-accent"))
        if others:
            parts.append((f" and {len(others)} more", "$tone-accent"))
    if resting:
        parts.append(
            (f" · {number_format.counted(len(resting), 'pull')} unfinished", "$tone-borderline")
        )
    if busy:
        parts.append((f" · {one_line(busy)}", "$tone-accent"))
    else:
        parts.append((" · only s and p use the network", "$tone-muted"))
    return Content.assemble(*parts)


def recommended_content(models: RecommendedSet, model: Recommended) -> Content:
    """Returns a recommended model of a set in one line."""
    return Content.assemble(
        (f"{models.memory / 1e9:>3.0f} GB ", "bold $tone-accent" if models.here else "$tone-muted"),
        f"{one_line(model.role, 9):<9} {one_line(model.repository, 38):<38}",
        (f" {model.size / 1e9:>5.1f} GB", "$tone-muted"),
    )


def note_content(model: Recommended) -> Content:
    """Returns why a model is recommended."""
    text = f"license {one_line(model.license, 40)}. {one_line(model.note, 200)}"
    return Content.styled(text, "$tone-muted")


def found_content(row: HubModel) -> Content:
    """Returns a repository that was found in one line."""
    return Content.assemble(
        f"{one_line(row.name, 42):<42}",
        (f" {number_format.amount(row.downloads):>6}  ", "$tone-muted"),
        ("gated " if row.gated else "", "$tone-borderline"),
        (one_line(row.license, 12) or "no license", "$tone-muted"),
    )


def file_content(file: HubFile, fits: bool | None) -> Content:
    """Returns a file of a repository in one line."""
    parts = f"  {len(file.parts)} parts" if len(file.parts) > 1 else ""
    large = "  too large" if fits is False else ""
    name = one_line(file.name, 1_000)
    # The files of a repository differ at the end of their names.
    name = name if len(name) <= FILE_CHARACTERS else f"…{name[1 - FILE_CHARACTERS :]}"
    return Content.assemble(
        f"{name:<{FILE_CHARACTERS}}",
        (f" {number_format.size(file.size):>9}{parts}", "$tone-muted"),
        (large, "$tone-borderline"),
    )


def page_content(page: HubPage) -> Content:
    """Returns the facts about a repository."""
    repository = page.repository
    lines = [
        Content.assemble(
            ("license ", "$tone-muted"),
            one_line(repository.license, 24) or "unknown",
            (f" · commit {one_line(repository.revision[:8])}", "$tone-muted"),
            (f" · {number_format.size(page.room)} free here", "$tone-muted"),
        )
    ]
    if repository.gated:
        text = "gated: its owners give access to those who accept their terms"
        lines.append(Content.styled(text, "$tone-borderline"))
    if repository.left_out:
        lines.append(Content.styled(f"{repository.left_out} more cannot be pulled", "$tone-muted"))
    lines.append(Content.styled(one_line(page.page, 200), "$tone-muted"))
    return Content("\n").join(lines)


def as_text(row: ModelRow, facts: Sequence[Fact]) -> str:
    """Returns a model as tab-separated lines, for the clipboard."""
    return "\n".join([row.name, *(f"{fact.name}\t{fact.value}" for fact in facts)])


def model_columns() -> list[Column[Item]]:
    """Returns the name, state, sizes, speed, and where it is from."""

    def of_model(cell: Callable[[ModelRow], Piece]) -> Callable[[Item], Sequence[Piece]]:
        """Returns the cell of a column that only models have."""
        dash = (DASH, "tone--muted")
        return lambda item: [cell(item) if isinstance(item, ModelRow) else dash]

    def name(item: Item) -> Sequence[Piece]:
        """Returns the name."""
        return [(one_line(item.name, 200), "")]

    def state(item: Item) -> Sequence[Piece]:
        """Returns the state with its sign."""
        if isinstance(item, PullRow):
            look, word = PULL_LOOKS[item.state], pull_word(item)
        else:
            look, word = look_of(item), state_word(item)
        return [(f"{look.glyph} {word}", look.tone_class)]

    def size(item: Item) -> Sequence[Piece]:
        """Returns the size on disk, of a pull that of the whole file."""
        return [(number_format.size(item.size if isinstance(item, ModelRow) else item.total), "")]

    def origin(item: Item) -> Sequence[Piece]:
        """Returns where it is from."""
        return [(one_line(item.origin if isinstance(item, ModelRow) else "hub", 20), "tone--muted")]

    def source(item: Item) -> Sequence[Piece]:
        """Returns the work that it is used for, and its note or origin."""
        if isinstance(item, PullRow):
            return [(one_line(item.repository, 120), "tone--muted")]
        detail = (one_line(item.note or item.source, 120), "tone--muted")
        works = format_works(item.works)
        return [(f"{works} · ", "tone--accent"), detail] if works else [detail]

    def memory(row: ModelRow) -> Piece:
        """Returns the memory that the model needs, marked where the machine has less."""
        tone = "tone--borderline" if row.fits is False else ""
        return (number_format.size(row.memory), tone if row.memory is not None else "tone--muted")

    return [
        Column("name", "model", 16, name, flexible=True),
        Column("state", "status", 14, state),
        Column("size", "on disk", 9, size, right=True, keep=8),
        Column("memory", "memory", 9, of_model(memory), right=True, keep=7),
        Column("speed", "speed", 10, of_model(lambda r: (speed(r.tokens_per_s), "")),
               right=True, keep=6),
        Column("origin", "from", 8, origin, keep=5),
        Column("license", "license", 12,
               of_model(lambda r: (one_line(r.license, 30) or DASH, "tone--muted")), keep=4),
        Column("source", "what it is", 34, source, keep=3),
    ]  # fmt: skip
