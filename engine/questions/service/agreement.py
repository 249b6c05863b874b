"""How far the people who judged a project agree with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from engine.base.conversation import Verdict
from engine.base.number_format import counted, figure, figure_range
from engine.base.statistics.agreement import LabelAgreement, agree, alpha, shared
from engine.base.statistics.intervals import Interval
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.records.triage import NO_NAME, Opinion
from engine.questions.tables import second_verdicts

LEAST_FOR_KAPPA = 10
"""Fewest conversations in common for which sentences state kappa; JSON always has it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Agreement of two people; `found` is over the conversations that both judged, None if there are none."""

    one: str
    other: str
    found: LabelAgreement | None


@dataclass(frozen=True, slots=True)
class PeopleAgreement:
    """Agreement of all people who judged a project.

    Attributes:
        people: Number of conversations that each person judged, by name; empty is a person without a name.
        pairs: Every two people, those with most conversations in common first.
        shared: Number of conversations that two people or more judged.
        alpha: Krippendorff's alpha over those; None where there are none, or all verdicts are the same.
        disagreements: Number of conversations on which people disagree and nobody decided.
    """

    people: dict[str, int]
    pairs: tuple[Pair, ...]
    shared: int
    alpha: Interval | None
    disagreements: int

    def of_pairs(self, name: str | None = None) -> list[str]:
        """A sentence for every two people, or only for those with the person of this name."""
        said = []
        for pair in self.pairs:
            if name is not None and name not in (pair.one, pair.other):
                continue
            both = f"{pair.one or NO_NAME} and {pair.other or NO_NAME}"
            found = pair.found
            if found is None:
                said.append(f"{both} judged no conversation in common.")
                continue
            kappa = ""
            if found.kappa is not None and found.count >= LEAST_FOR_KAPPA:
                kappa = f", κ {_with_ends(found.kappa)}"
            common = counted(found.count, "conversation")
            said.append(f"{both} agree on {100 * found.accuracy.value:.0f}% of {common}{kappa}.")
        return said

    def as_json(self) -> dict[str, Any]:
        """The agreement as JSON values."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """The agreement in sentences; empty with fewer than two people."""
        if len(self.people) < 2:
            return []
        names = (f"{name or NO_NAME} {count:,}" for name, count in self.people.items())
        said = [f"Conversations judged: {', '.join(names)}.", *self.of_pairs()]
        if self.alpha is not None:
            said.append(
                f"Krippendorff's α {_with_ends(self.alpha)}, {counted(self.shared, 'conversation')}."
            )
        if self.disagreements:
            said.append(
                f"{counted(self.disagreements, 'conversation')} to decide on (disagreement:people)."
            )
        return said


def people_agreement(project: Project) -> PeopleAgreement:
    """Compares the verdicts of all people. Slow with many verdicts: draws bootstrap samples."""
    with project.reading() as conn, snapshot(conn):
        found = second_verdicts.opinions(conn)
        open_ones = len(second_verdicts.disagreements(conn))
    people = Counter(one.annotator for _, one in found)
    by_name = {
        name: {key: str(one.verdict) for key, one in found if one.annotator == name}
        for name in people
    }
    pairs = []
    for one, other in combinations(dict(people.most_common()), 2):
        ours, theirs = shared(by_name[one], by_name[other])
        pairs.append(Pair(one, other, agree(ours, theirs) if ours else None))
    pairs.sort(key=lambda pair: -(pair.found.count if pair.found else 0))
    counts = _counts(found)
    return PeopleAgreement(
        dict(people.most_common()),
        tuple(pairs),
        int((counts.sum(axis=1) > 1).sum()),
        alpha(counts),
        open_ones,
    )


def _counts(
    found: Sequence[tuple[int, Opinion]],
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """How many people gave each verdict, shape (conversations, verdicts)."""
    rows = {key: row for row, key in enumerate(dict.fromkeys(key for key, _ in found))}
    counts = np.zeros((len(rows), len(Verdict)), np.int64)
    columns = {verdict: column for column, verdict in enumerate(Verdict)}
    for key, one in found:
        counts[rows[key], columns[one.verdict]] += 1
    return counts


def _with_ends(value: Interval) -> str:
    if value.low == value.high:  # one of the two always said the same, so that no sample differs
        return figure(value.value)
    return f"{figure(value.value)} ({figure_range(value.low, value.high)})"
