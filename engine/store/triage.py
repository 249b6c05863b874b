"""Triage as the screens see it, bound to a project."""

from __future__ import annotations

from engine.rows import State, TriageItem, Verdict, VerdictRow
from engine.store import settings, verdicts
from engine.store.project import Project


class TriageStore:
    """The queue and the verdicts of one project; satisfies `screens.ports.Triage`."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def queue(self) -> list[TriageItem]:
        """What waits for a verdict, what is worth most first; see `verdicts.queue`."""
        with self._project.reading() as conn:
            threshold = settings.rule(conn).threshold
            return [
                TriageItem(conversation_id, _why(score, state, reason, threshold))
                for conversation_id, score, state, reason in verdicts.queue(conn)
            ]

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> VerdictRow:
        """Records a verdict."""
        return self._project.write(lambda conn: verdicts.give(conn, conversation_id, verdict, note))

    def note(self, conversation_id: int, note: str) -> VerdictRow:
        """Records a note and leaves the verdict as it is."""
        return self._project.write(lambda conn: verdicts.note(conn, conversation_id, note))

    def undo(self) -> VerdictRow | None:
        """Takes back the newest verdict or note that stands."""
        return self._project.write(verdicts.undo)

    def redo(self) -> VerdictRow | None:
        """Gives again what the newest undo took back."""
        return self._project.write(verdicts.redo)

    def current(self, conversation_id: int) -> VerdictRow | None:
        """What stands for this conversation."""
        with self._project.reading() as conn:
            return verdicts.current(conn, conversation_id)

    def tally(self) -> dict[Verdict, int]:
        """How many verdicts of each kind stand."""
        with self._project.reading() as conn:
            return verdicts.tally(conn)


def _why(score: float | None, state: State, reason: str | None, threshold: float) -> str:
    if score is None:
        return f"{state}: {reason or 'not scored yet'}"
    # No digits here: how many of them mean something depends on the model, and the screens draw the number.
    if state is State.BORDERLINE:
        return "borderline: the score is too near the threshold to say"
    side = "above" if score >= threshold else "below"
    return f"{state}: the score is {side} the threshold"
