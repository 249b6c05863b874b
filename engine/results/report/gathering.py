"""Puts a report together from what the project holds; asks no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from engine.base import folders
from engine.base.errors import NotFound, UsageError
from engine.base.interval import wilson
from engine.base.number_format import counted, figure
from engine.base.text import one_line
from engine.completeness.service.sets import in_force, name_of, reliability
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.personal_data import KINDS, NAMES
from engine.opener.open_project import OpenProject
from engine.project.records import RunRow
from engine.questions.records.calibration import CompletionRate
from engine.results.comparison.measured import Measured
from engine.results.report.comparing import Compared, breakdown_tables, comparison_blocks
from engine.results.report.document import (
    Bars,
    Block,
    Columns,
    Document,
    Paragraph,
    Points,
    Quote,
    Section,
    Table,
)
from engine.results.report.goal_figures import clustering_figures, largest_goals
from engine.results.report.tree_figures import tree_blocks
from engine.results.report.validation_tables import validation_blocks

MOST_GOALS = 30
WORST_GOALS = 3
TO_READ = 8
LEAST_SCORED = 5
"""Scored conversations below which a goal is not called one of the worst."""
TELLING = 30
"""Characters of an opening that says more than a greeting."""
QUOTED = 400
"""Characters of a message that are quoted."""
MOST_POINTS = 600
BINS = 20
_KIND_NAMES: Mapping[str, str] = {kind: NAMES[kind] for kind in KINDS}


def report(
    services: OpenProject,
    wanted: Filter,
    *,
    validate: bool = True,
    compared: Compared | None = None,
) -> Document:
    """The report on the conversations of a filter; an empty filter gives the whole project.

    Args:
        validate: Adds the tables of validation, which take seconds.
        compared: A comparison that becomes a section.

    Raises:
        UsageError: No conversation matches.
        WorkbenchError: The project cannot evaluate the filter.
    """
    found = services.comparison.measured(wanted)
    if wanted and not len(found.ids):
        raise NotFound("No conversation matches the filter.", "Write a report without --filter.")
    about = _Report(services, wanted, found)
    sections = [
        Section("What is here", tuple(about.contents())),
        Section("Did users get what they wanted?", tuple(about.completion())),
        Section("What users wanted", tuple(about.goals())),
        Section("What to read first", tuple(about.to_read())),
        Section("How sure the model was", tuple(tree_blocks(services, wanted, found))),
        Section("Over time", tuple(about.over_time())),
    ]
    if compared is not None:
        sections.append(Section("What differs", tuple(comparison_blocks(compared))))
    if validate and not wanted:
        sections.append(
            Section(
                "The metrics against what is known",
                tuple(validation_blocks(services.validation, len(found.ids))),
            )
        )
    sections.append(Section("How this was measured", tuple(about.method())))
    of = f"Conversations that match {wanted}. " if wanted else ""
    dates = services.conversations.dates()
    span = f"From {dates[0][:10]} to {dates[1][:10]}. " if dates and not wanted else ""
    made = f"Made by Conversation Workbench {folders.version()}."
    return Document(f"Report on {services.name}", f"{of}{span}{made}", tuple(sections))


class _Report:
    """The sections of one report."""

    def __init__(self, services: OpenProject, wanted: Filter, found: Measured) -> None:
        self._services, self._wanted, self._found = services, wanted, found
        self._sets = services.score_sets.all()

    def contents(self) -> Iterator[Block]:
        """Numbers of conversations, sources, languages, personal data, copies."""
        rows = self._services.conversations
        counts = rows.counts(ListQuery(self._wanted) if self._wanted else None)
        yield Paragraph(
            f"{counted(counts.conversations, 'conversation')} with {counted(counts.messages, 'message')} and"
            f" {counted(counts.turns, 'turn')}, from {counted(counts.sources, 'source')}."
            + (f" Exact duplicates left out: {counts.duplicates:,}." if counts.duplicates else "")
            + (
                f" Records that could not be read: {counts.quarantined:,}."
                if counts.quarantined
                else ""
            )
        )
        for title, field in (
            ("Sources", "source"),
            ("Languages", "language"),
            ("Models that answered", "model"),
        ):
            found = rows.values(field, self._wanted)
            if found:
                yield Table(
                    title,
                    ("", "conversations"),
                    tuple((value, f"{count:,}") for value, count in found[:12]),
                    frozenset((1,)),
                )
        personal = [
            f"{_KIND_NAMES.get(value, value)} in {count:,}"
            for value, count in rows.values("personal", self._wanted)
            if count
        ]
        copies = sum(count or 0 for _, count in rows.values("copies", self._wanted))
        said = (
            [f"Personal data was found: {', '.join(personal)} conversations."] if personal else []
        )
        said += [f"{copies:,} conversations are near copies of others."] if copies else []
        if said:
            yield Paragraph(" ".join(said))

    def completion(self) -> Iterator[Block]:
        """The completion rate with its interval, corrected by verdicts, and the histogram of scores."""
        states = self._found.states()
        total = len(self._found.ids)
        now = in_force(self._sets)
        if states.rate is None or now is None:
            yield Paragraph("Nothing is scored. `workbench run complete PROJECT` scores.", True)
            return
        rate = self._rate(self._found)
        rule = self._services.conversations.rule()
        yield Paragraph(
            f"{states.rate.value:.0%} of the scored conversations are complete by their score"
            f" (95% interval {states.rate.low:.0%} to {states.rate.high:.0%}):"
            f" {states.above:,} have {figure(rule.threshold)} or more;"
            f" {states.scored:,} of {total:,} are scored.",
            True,
        )
        if states.borderline:
            yield Paragraph(
                f"{states.borderline:,} of the scored ones are borderline: within {figure(rule.band)} of"
                " the threshold, and counted on their side of it."
            )
        if rate.corrected is not None:
            yield Paragraph(
                "Without the errors of the scores, as verdicts show them:"
                f" {_interval(rate)} of the conversations are complete."
            )
        elif rate.why:
            yield Paragraph(f"The rate is not corrected by verdicts: {rate.why}.")
        told = reliability(now, self._sets)
        yield Paragraph(
            f"Scores in force: {name_of(now)}. {told.test[:1].upper()}{told.test[1:]}."
            + (f" Doubt: {told.doubt}." if told.doubt else "")
        )
        values = self._found.score[self._found.scored]
        bins, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
        yield Columns(
            "Conversations by score (0: goes on, 1: ends here)",
            tuple((f"{at / BINS:.2f}", int(count)) for at, count in enumerate(bins)),
            (rule.threshold, f"threshold {figure(rule.threshold)}"),
        )

    def goals(self) -> Iterator[Block]:
        """The goals with shares, completion and examples, and the map."""
        if not self._found.goals:
            yield Paragraph(
                "Nothing is clustered. `workbench run cluster PROJECT` groups conversations by goal.",
                True,
            )
            return
        parts = self._parts
        total = len(self._found.ids)
        none = total - sum(len(part.ids) for _, part in parts)
        rows = []
        for label, part in parts[:MOST_GOALS]:
            above, scored = part.counts()
            rows.append(
                (
                    label,
                    f"{len(part.ids):,}",
                    _share(len(part.ids), total),
                    _share(above, scored),
                    self._example(part),
                )
            )
        yield Table(
            "Goals, the most frequent first",
            (
                "goal",
                "conversations",
                "share (95% interval)",
                "complete (95% interval)",
                "for example",
            ),
            tuple(rows),
            frozenset((1, 2, 3)),
        )
        rest = len(parts) - MOST_GOALS
        if rest > 0 or none:
            more = f"{counted(rest, 'goal')} more are not listed. " if rest > 0 else ""
            yield Paragraph(f"{more}{counted(none, 'conversation')} in no goal." if none else more)
        yield largest_goals([(label, len(part.ids)) for label, part in parts], total)
        yield Bars(
            "Completion by goal, the lowest first",
            tuple(
                (label, above / scored, f"{above / scored:.0%} of {scored:,}")
                for label, above, scored in sorted(self._rates, key=lambda one: one[1] / one[2])[
                    :15
                ]
            ),
        )
        if not self._wanted:
            yield from self._map([label for label, _ in parts])
            measured = self._services.goals.measurements()
            if measured is not None:
                yield from clustering_figures(measured)

    def to_read(self) -> Iterator[Block]:
        """Conversations of the goals with the lowest completion, quoted, and a list of the least complete ones."""
        lowest = sorted(
            (one for one in self._rates if one[2] >= LEAST_SCORED),
            key=lambda one: one[1] / one[2],
        )[:WORST_GOALS]
        parts = dict(self._parts)
        for label, above, scored in lowest:
            yield Paragraph(f"“{label}”: {above:,} of {scored:,} complete. The least complete one:")
            part = parts[label]
            yield self._quote(int(part.ids[np.nanargmin(part.score)]))
        ids = self._found.ids[np.argsort(self._found.score, kind="stable")]
        scored = int(self._found.scored.sum())
        rows = self._services.conversations.rows([int(key) for key in ids[: min(scored, TO_READ)]])
        if not rows:
            yield Paragraph("Nothing is scored, so nothing can be put first.")
            return
        yield Table(
            "The conversations that are least complete",
            ("conversation", "score", "begins with", "what is left to do"),
            tuple(
                (
                    row.external_id,
                    figure(row.p_end_normalised or 0.0),
                    one_line(row.opening, 120),
                    self._remaining(row.id),
                )
                for row in rows
            ),
            frozenset((1,)),
        )

    def over_time(self) -> Iterator[Block]:
        """Completion and uncertainty by month, each with the change from the month before."""
        try:
            months = self._services.comparison.breakdown(self._found, "month", self._wanted)
        except UsageError:
            yield Paragraph("The conversations have no dates.")
            return
        yield from breakdown_tables(
            months, "by month; change against the month before, p corrected for all tests"
        )
        if months.without:
            yield Paragraph(f"{counted(months.without, 'conversation')} without a date.")

    def method(self) -> Iterator[Block]:
        """Sets of scores, runs with their hashes, and what the report does not say."""
        if self._sets:
            yield Table(
                "Sets of scores",
                ("set", "in force", "scored", "hash"),
                tuple(
                    (
                        name_of(one),
                        "yes" if one.in_force else "",
                        f"{one.scored:,}",
                        one.config_hash[:16],
                    )
                    for one in self._sets
                ),
                frozenset((2,)),
            )
        latest: dict[str, RunRow] = {}
        for run in self._services.jobs.history():
            latest.setdefault(run.stage, run)
        yield Table(
            "The latest run of each stage",
            ("stage", "state", "begun", "version", "hash of parameters, prompts and model"),
            tuple(
                (run.stage, run.state, run.started_at[:16], run.code_version, run.config_hash)
                for run in latest.values()
            ),
        )
        yield Paragraph(
            "A score is the probability that a conversation ends where it ends, by a local model; it is no judgment of"
            " the answers. Goals are clusters of what users wrote, named by phrases of their members, merged where a"
            " person agreed. Intervals are 95%. Conversations count as independent of each other."
        )
        yield Paragraph(
            "Soroka et al.: “Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions”, the paper whose"
            " tables and figures are named here."
        )

    @cached_property
    def _parts(self) -> list[tuple[str, Measured]]:
        """The goals with their conversations, the most frequent first, as in every list of them; empty ones are left
        out."""
        found = [
            (label, self._found.part(self._found.goal == at))
            for at, label in enumerate(self._found.goals)
        ]
        return sorted((one for one in found if len(one[1].ids)), key=lambda one: -len(one[1].ids))

    @cached_property
    def _rates(self) -> list[tuple[str, int, int]]:
        """(label, at or above the threshold, scored) of the goals that have scored conversations."""
        found = [(label, *part.counts()) for label, part in self._parts]
        return [one for one in found if one[2]]

    def _rate(self, part: Measured) -> CompletionRate:
        return part.rate(by_score=self._services.comparison.goes_by_score(self._wanted))

    def _example(self, part: Measured) -> str:
        """The opening of one of the first conversations that says more than a greeting."""
        rows = self._services.conversations.rows(part.ids[:10].tolist())
        telling = sorted(rows, key=lambda row: len(row.opening) < TELLING)
        return one_line(telling[0].opening, 90) if telling else ""

    def _remaining(self, key: int) -> str:
        found = self._services.conversations.remaining(key)
        return "" if found is None else one_line(found.text, 200)

    def _quote(self, key: int) -> Quote:
        """The first message of the user, and the last two messages with text."""
        rows = self._services.conversations
        messages = [
            one for one in rows.messages(key) if one.content.strip() and one.role != "system"
        ]
        first = next((at for at, one in enumerate(messages) if one.role == "user"), 0)
        chosen = sorted({first, *range(max(0, len(messages) - 2), len(messages))})
        said = [
            (messages[at].role, one_line(messages[at].content, QUOTED))
            for at in chosen
            if at < len(messages)
        ]
        name = next((row.external_id for row in rows.rows([key])), str(key))
        return Quote(f"{name}, {counted(len(messages), 'message')}", tuple(said))

    def _map(self, labels: list[str]) -> Iterator[Block]:
        letters = {label: at for at, label in enumerate(labels)}
        names = {group.id: group.label for group in self._services.goals.groups()}
        places = self._services.goals.map(MOST_POINTS)
        yield Points(
            "Map of goals: near conversations want similar things",
            tuple(
                (one.x, one.y, letters.get(names.get(one.group or "", ""), -1)) for one in places
            ),
            tuple(labels),
        )


def _share(part: int, of: int) -> str:
    if not of:
        return "unscored"
    found = wilson(part, of)
    return f"{part / of:.0%} ({found.low:.0%} to {found.high:.0%})"


def _interval(rate: CompletionRate) -> str:
    found = rate.corrected
    assert found is not None
    return f"{found.value:.0%} (95% interval {found.low:.0%} to {found.high:.0%})"
