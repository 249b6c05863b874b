"""The port `Calibration` on a fake project, with the real calculation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.completeness import calibration
from engine.filters import ListQuery, parse_filter
from engine.records.calibration import Agreement, CalibrationReport, CompletionRate, FilterRate
from engine.records.conversations import DecisionRule, State, Verdict

if TYPE_CHECKING:
    from tests.screens.fakes import FakeProject


class FakeCalibration:
    """Reads the verdicts of a fake project; `rule` is what a refresh or a pin left."""

    def __init__(self, project: FakeProject) -> None:
        self._project = project
        self.rule = DecisionRule()

    def _judged(self) -> list[tuple[float, Verdict]]:
        found = []
        for item in self._project.items.values():
            current, p = self._project.current(item.row.id), item.row.p_end_normalised
            if current is not None and current.verdict is not None and p is not None:
                found.append((p, current.verdict))
        return [pair for pair in found if pair[1] is not Verdict.UNSURE]

    def report(self, query: ListQuery | None = None) -> CalibrationReport:
        judged = self._judged()
        complete = [verdict is Verdict.COMPLETE for _, verdict in judged]
        rows = {item.row.id: item.row for item in self._project.items.values()}
        scored = [row.p_end_normalised for row in rows.values()]
        at = self.rule.threshold if self.rule.source == "chosen" else None
        known = [p for p in scored if p is not None]
        found = calibration.calibrate([p for p, _ in judged], complete, known, at)
        threshold = found.accuracy.threshold if found.accuracy else self.rule.threshold

        def rate(wanted: ListQuery) -> CompletionRate:
            ids = self._project.ids(wanted)
            inside = [p for key in ids if (p := rows[key].p_end_normalised) is not None]
            above = sum(p >= threshold for p in inside)
            return calibration.completion_rate(found, above, len(inside), len(ids))

        model, itself = self.agreements()
        return CalibrationReport(
            rule=self.rule,
            complete=sum(complete),
            incomplete=len(complete) - sum(complete),
            enough=not calibration.lacking(sum(complete), len(complete) - sum(complete)),
            why=found.why,
            best=found.best,
            accuracy=found.accuracy,
            covered=found.covered,
            bins=found.bins,
            calibration_error=found.calibration_error,
            rate=rate(query or ListQuery()),
            filters=tuple(
                FilterRate(name, text, rate(ListQuery(parse_filter(text))))
                for name, text in self._project.saved.filters().items()
            ),
            model=model,
            itself=itself,
        )

    def agreements(self) -> tuple[Agreement, Agreement]:
        decided = [
            (str(verdict), str(self.rule.state(p)))
            for p, verdict in self._judged()
            if self.rule.state(p) in (State.COMPLETE, State.INCOMPLETE)
        ]
        repeated = [
            (current.verdict, row.verdict)
            for row in self._project.given
            if row.kind == "repeat"
            and (current := self._project.current(row.conversation_id)) is not None
        ]
        return calibration.agreement(decided), calibration.agreement(repeated)

    def refresh(self) -> DecisionRule | None:
        report = self.report()
        if self.rule.source == "chosen" or report.best is None:
            return None
        new = replace(self.rule, threshold=report.best, source="calibrated")
        changed, self.rule = new != self.rule, new
        return new if changed else None

    def pin(self, threshold: float | None) -> DecisionRule:
        if threshold is None:
            self.rule = DecisionRule()
            self.refresh()
        else:
            self.rule = replace(self.rule, threshold=threshold, source="chosen")
        return self.rule
