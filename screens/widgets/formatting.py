"""How states, times, facts and agreement are written, the same on every screen.

A tone is a color by its meaning. Widgets that draw their own lines name it by a component class (`tone--muted`), styled
text by a variable of the theme (`$tone-muted`). A piece is a text with its tone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from engine.base import number_format
from engine.base.conversation import State, Verdict
from engine.base.text import ERROR_LIMIT, display_safe, one_line, short_name
from engine.questions.records import Agreement, Answerer, MachineAnswer

ANSWERER_CHARACTERS = 30
"""Most characters of the name of what answers: the answer follows it."""
TONES = {
    "tone--complete",
    "tone--incomplete",
    "tone--borderline",
    "tone--unscored",
    "tone--bright",
    "tone--muted",
    "tone--accent",
    "tone--header",
    "tone--cursor",
    "tone--cursor-blurred",
    "tone--found",
}
"""Component classes of the tones, for every widget that draws its own lines."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown: its sign, its word, and its tone, by the ending of the names of class and variable."""

    glyph: str
    word: str
    tone: str

    @property
    def tone_class(self) -> str:
        """Name of the component class."""
        return f"tone--{self.tone}"

    @property
    def tone_variable(self) -> str:
        """Name of the theme variable, with its dollar sign."""
        return f"$tone-{self.tone}"


STATE_LOOKS: dict[State, Look] = {
    State.COMPLETE: Look("●", State.COMPLETE.word, "complete"),
    State.INCOMPLETE: Look("○", State.INCOMPLETE.word, "incomplete"),
    State.BORDERLINE: Look("◐", State.BORDERLINE.word, "borderline"),
    State.UNSCORED: Look("·", State.UNSCORED.word, "unscored"),
}
"""How each state of a conversation is shown."""
VERDICT_LOOKS: dict[Verdict, Look] = {
    Verdict.YES: Look("●", "yes", "complete"),
    Verdict.NO: Look("○", "no", "incomplete"),
    Verdict.UNSURE: Look("◐", "unsure", "borderline"),
}


def date_and_minute(time: str) -> str:
    """Returns the date and the minute of an ISO 8601 time, `2026-10-31 10:04`; display-safe."""
    return one_line(time[:16].replace("T", " "))


def facts_table(facts: Sequence[tuple[str, str]], cells: int) -> Content:
    """Returns names and values below each other, `cells` wide, each value wrapped beside its name; both are
    display-safe."""
    width = max((len(name) for name, _ in facts), default=0) + 2
    lines = []
    for name, value in facts:
        wrapped = f"\n{'':{width}}".join(textwrap.wrap(value, max(1, cells - width)))
        lines.append(Content.assemble((f"{name:<{width}}", "$tone-muted"), wrapped))
    return Content("\n").join(lines)


def rate_piece(
    part: int, total: int, tone: str = "", *, faint: str = "$tone-muted"
) -> tuple[str, str]:
    """Returns a share with its interval, `71% [68, 74]`, and its tone: `faint` where the total is small."""
    return number_format.rate(part, total), faint if number_format.is_few(total) else tone


def agreement_piece(agreement: Agreement) -> tuple[str, str]:
    """Returns the text of an agreement, without its kappa, and a tone: faint where few answers are compared."""
    is_faint = agreement.n > 0 and number_format.is_few(agreement.n)
    return replace(agreement, kappa=None).text, "$tone-muted" if is_faint else ""


def machine_answer_text(answerer: Answerer, answer: MachineAnswer) -> str:
    """Returns what a pattern, a model or a file answers to a question, and why: `pattern: refused: yes`."""
    value = f"{short_name(answerer.question)}: {short_name(str(answer.value))}"
    why = f" · {one_line(answer.explanation, ERROR_LIMIT)}" if answer.explanation else ""
    return f"{one_line(answerer.name, ANSWERER_CHARACTERS)}: {value}{why}"


def fitting(clauses: Sequence[str], cells: int) -> str:
    """Returns the first clauses that fit into `cells` cells, with ` · ` between them; display-safe.

    The first clause is cut between words where it does not fit alone.
    """
    line, *others = [display_safe(clause) for clause in clauses]
    if cell_len(line) > cells:
        beginning = set_cell_size(line, max(1, cells - 1))
        return (beginning.rpartition(" ")[0] or beginning).rstrip(" ,;") + "…"
    for clause in others:
        longer = f"{line} · {clause}"
        if cell_len(longer) > cells:
            break
        line = longer
    return line
