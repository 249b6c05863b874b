"""What the overview shows, read in one go off the UI thread, and its words. Knows nothing of widgets."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from engine.filters import Filter, ListQuery
from engine.rows import Counts, DecisionRule, Histogram, Mode, Verdict
from engine.text import one_line
from screens import figures
from screens.ports import Conversations, Services
from screens.widgets.histogram import BINS
from screens.widgets.states import STATE_LOOKS, VERDICT_LOOKS

Part = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts against the scores of the same conversations, both complete or incomplete; borderline is left out.

    Attributes:
        both_complete, both_incomplete: They agree.
        only_human, only_model: One alone says complete.
    """

    both_complete: int
    both_incomplete: int
    only_human: int
    only_model: int

    @property
    def compared(self) -> int:
        """Conversations on which both decided."""
        return self.both_complete + self.both_incomplete + self.only_human + self.only_model

    @property
    def agreed(self) -> int:
        """Those on which they said the same."""
        return self.both_complete + self.both_incomplete

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, agreement beyond chance; None where chance alone would agree on everything."""
        n = self.compared
        if not n:
            return None
        human = (self.both_complete + self.only_human) / n
        model = (self.both_complete + self.only_model) / n
        chance = human * model + (1 - human) * (1 - model)
        return (self.agreed / n - chance) / (1 - chance) if chance < 1 else None


@dataclass(frozen=True, slots=True)
class Overview:
    """One look at a whole project."""

    counts: Counts
    tally: dict[Verdict, int]
    agreement: Agreement
    sources: list[str]
    dates: tuple[str, str] | None
    histogram: Histogram
    rule: DecisionRule


def load_overview(services: Services) -> Overview:
    """Reads everything; takes seconds on a million conversations."""
    conversations = services.conversations
    return Overview(
        counts=conversations.counts(),
        tally=services.triage.tally(),
        agreement=_agreement(conversations),
        sources=conversations.sources(),
        dates=conversations.dates(),
        histogram=conversations.histogram(None, BINS),
        rule=conversations.rule(),
    )


def _agreement(conversations: Conversations) -> Agreement:
    def judged(verdict: Verdict) -> Counts:
        return conversations.counts(ListQuery(Filter().with_choice("verdict", verdict.value)))

    yes, no = judged(Verdict.COMPLETE), judged(Verdict.INCOMPLETE)
    return Agreement(yes.complete, no.incomplete, yes.incomplete, no.complete)


def current_mode(services: Services) -> Mode:
    """The mode of the scores that are in force, `base` where there are none."""
    for conversation_id in services.conversations.ids(ListQuery(sort="p"))[:1]:
        score = services.conversations.score(conversation_id)
        if score is not None:
            return score.mode
    return "base"


def project_content(found: Overview) -> Content:
    """How much there is, where it comes from, and what was kept out; three lines."""
    counts = found.counts
    sources = figures.counted(counts.sources or len(found.sources), "source")
    if len(found.sources) == 1:
        sources = one_line(found.sources[0], 40)
    parts: list[Part] = [
        (f"{counts.conversations:,}", "bold"),
        f" {'conversation' if counts.conversations == 1 else 'conversations'}",
        (
            f"  {figures.counted(counts.messages, 'message')}"
            f" · {figures.counted(counts.turns, 'turn')}\n",
            "$tone-muted",
        ),
        sources,
    ]
    if found.dates is not None:
        parts.append((f" · {_span(*found.dates)}", "$tone-muted"))
    parts.append("\n")
    kept = [
        (counts.quarantined, "quarantined", "$tone-incomplete"),
        (counts.duplicates, "duplicates", "$tone-muted"),
        (counts.leaks, "endings hidden from the model", "$tone-muted"),
    ]
    told = [(f"{number:,} {word}", tone) for number, word, tone in kept if number]
    for index, piece in enumerate(told or [("nothing kept out", "$tone-muted")]):
        parts += [" · " if index else "", piece]
    return Content.assemble(*parts)


def _span(first: str, last: str) -> str:
    """Two days as one span, `2026-10-01 to 10-31`."""
    first, last = one_line(first[:10]), one_line(last[:10])
    if first == last:
        return first
    return f"{first} to {last.removeprefix(first[:5])}"


def rate_content(found: Overview) -> Content:
    """The share of complete conversations with interval and coverage, and what the others are; two lines."""
    counts = found.counts
    if not counts.scored:
        return Content.assemble(
            ("No scores yet.", "bold"), ("\nscoring says who got what they wanted", "$tone-muted")
        )
    coverage = 100 * counts.scored / counts.conversations
    shown = f"{coverage:.0f}" if coverage in (0, 100) or 1 <= coverage <= 99 else f"{coverage:.1f}"
    parts: list[Part] = [
        (figures.rate(counts.complete, counts.scored), "bold $tone-complete"),
        " complete",
        (f"  (n {counts.scored:,} · {shown}% scored)\n", "$tone-muted"),
    ]
    numbers = (counts.complete, counts.incomplete, counts.borderline, counts.unscored)
    for look, number in zip(STATE_LOOKS.values(), numbers, strict=True):
        parts += [
            (f"{look.glyph} {number:,}", look.tone_variable),
            (f" {look.word}  ", "$tone-muted"),
        ]
    return Content.assemble(*parts)


def verdicts_content(found: Overview, per_hour: float | None) -> Content:
    """What the person said, and how far the model agrees; two lines."""
    given = sum(found.tally.values())
    if not given:
        return Content.assemble(
            ("No verdicts yet.", "bold"), ("\ntriage asks where they are worth most", "$tone-muted")
        )
    parts: list[Part] = []
    for verdict, look in VERDICT_LOOKS.items():
        parts += [
            (f"{look.glyph} {found.tally.get(verdict, 0):,}", f"bold {look.tone_variable}"),
            (f" {look.word}  ", "$tone-muted"),
        ]
    if per_hour is not None:
        parts.append((f"{per_hour:.0f}/h", "$tone-muted"))
    parts.append("\n")
    agreement = found.agreement
    if agreement.compared:
        parts.append(f"model agrees {figures.rate(agreement.agreed, agreement.compared)}")
        kappa = agreement.kappa
        told = f"κ {kappa:.2f} · " if kappa is not None else ""
        parts.append((f"  ({told}n {agreement.compared:,})", "$tone-muted"))
    else:
        parts.append(("no decided score to compare them with", "$tone-muted"))
    return Content.assemble(*parts)
