"""One glyph, word and tone for each state and verdict, the same on every screen.

A tone is a component class (`tone--complete`) whose colour is set in `common.tcss`, and a theme variable
(`$tone-complete`) for text put together as `Content`. The model's opinion is drawn plain or dim, a human's bold.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.outcomes import (
    State,
    Verdict,
)

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
"""Component classes of every widget that draws its own lines."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown. `tone` is the ending of the class and variable names."""

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
    State.COMPLETE: Look("●", "complete", "complete"),
    State.INCOMPLETE: Look("○", "incomplete", "incomplete"),
    State.BORDERLINE: Look("◐", "borderline", "borderline"),
    State.UNSCORED: Look("·", "unscored", "unscored"),
}
VERDICT_LOOKS: dict[Verdict, Look] = {
    Verdict.COMPLETE: Look("●", "complete", "complete"),
    Verdict.INCOMPLETE: Look("○", "incomplete", "incomplete"),
    Verdict.UNSURE: Look("◐", "unsure", "borderline"),
}
