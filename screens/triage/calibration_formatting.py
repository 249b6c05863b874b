"""The texts and the reliability plot of the calibration screen. Knows nothing of its widgets."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from engine.base import number_format
from engine.base.conversation import Verdict
from engine.base.statistics.intervals import Interval, Share
from engine.base.text import one_line
from engine.questions.records import (
    MIN_EXAMPLES_OF_EACH,
    MIN_OF_EACH,
    MIN_VERDICTS,
    CalibrationReport,
    CompletionRate,
    ExampleProbe,
    ExampleProbeChange,
    ReliabilityBin,
)
from screens.widgets.empty_state import SCORE, EmptyState
from screens.widgets.formatting import VERDICT_LOOKS, agreement_piece, rate_piece

Piece = tuple[str, str] | str
MIN_WELL_COVERED_SHARE = 0.8
"""Share of the scores from which on the verdicts cover them well."""
AT_CHANCE = "at chance: no list shows these probabilities until more verdicts tell the two apart"
NAME_WIDTH = 18


def format_threshold(value: float) -> str:
    """Returns a threshold; near the ends with a digit more, because scores crowd there."""
    return number_format.probability(value, 2 if 0.05 <= value <= 0.95 else 3)


def format_estimate(estimate: Interval | None) -> str:
    """Returns `92% (81–97)`, a dash for none."""
    if estimate is None:
        return "–"
    low, high = 100 * estimate.low, 100 * estimate.high
    return f"{100 * estimate.value:.0f}% ({low:.0f}–{high:.0f})"


def format_share(share: Share | None) -> str:
    """Returns `23 of 25`, a dash for none."""
    return "–" if share is None else f"{share.part} of {share.of}"


def verdicts_content(report: CalibrationReport) -> Content:
    """Returns the number of verdicts, whether they are enough, and which share of the scores they represent."""
    complete, incomplete = VERDICT_LOOKS[Verdict.YES], VERDICT_LOOKS[Verdict.NO]
    parts: list[Piece] = [
        (f"{complete.glyph} {report.complete:,} complete", f"bold {complete.tone_variable}"),
        (
            f"  {incomplete.glyph} {report.incomplete:,} incomplete",
            f"bold {incomplete.tone_variable}",
        ),
        "\n",
    ]
    if not report.enough:
        missing = max(
            MIN_VERDICTS - report.verdicts,
            MIN_OF_EACH - report.complete,
            MIN_OF_EACH - report.incomplete,
        )
        parts.append((f"{missing} more verdicts needed", "bold $tone-borderline"))
        parts.append((f": {MIN_VERDICTS} in all, {MIN_OF_EACH} of each kind\n", "$tone-muted"))
    if report.verdicts:
        tone = "$tone-muted" if report.covered >= MIN_WELL_COVERED_SHARE else "$tone-borderline"
        parts.append((f"they represent {report.covered:.0%} of the scores", tone))
        if report.covered < MIN_WELL_COVERED_SHARE:
            parts.append((": in triage, O chooses the calibration sample", "$tone-muted"))
    if report.model.n:
        parts.append(("\nscore agrees ", "$tone-muted"))
        parts.append(agreement_piece(report.model))
    for each in report.models:
        if each.agreement != report.model:  # that of the scores in force stands above
            name = each.answers.replace("remaining tasks of ", "tasks, ")  # fits on a line
            parts.append((f"\n{one_line(name, 40)} ", "$tone-muted"))
            parts.append(agreement_piece(each.agreement))
    if report.itself.n:
        parts.append(("\nyou with yourself, blind ", "$tone-muted"))
        parts.append(agreement_piece(report.itself))
    return Content.assemble(*parts)


def threshold_content(report: CalibrationReport) -> Content:
    """Returns the threshold in force, with its sensitivity, specificity and precision: estimated for all scored
    conversations, and counted over the judged ones.
    """
    source = {"default": "the default", "calibrated": "from your verdicts", "chosen": "pinned"}
    parts: list[Piece] = [
        (format_threshold(report.rule.threshold), "bold $tone-bright"),
        (f" in force, {source[report.rule.source]}", "$tone-muted"),
    ]
    parts += _proposal_pieces(report)
    accuracy = report.accuracy
    if accuracy is None:
        parts.append((f"\n{report.why}" if report.why else "", "$tone-borderline"))
        return Content.assemble(*parts)
    parts.append((f"\n{'':<11} {'all scored':<14}your verdicts", "$tone-muted"))
    for name, estimate, raw in (
        ("recall     ", accuracy.sensitivity, accuracy.raw_sensitivity),
        ("precision  ", accuracy.precision, accuracy.raw_precision),
        ("specificity", accuracy.specificity, accuracy.raw_specificity),
    ):
        parts.append((f"\n{name} ", "$tone-muted"))
        parts.append((f"{format_estimate(estimate):<14}", "bold"))
        parts.append((format_share(raw), "$tone-muted"))
    if accuracy.why:
        parts.append((f"\n{one_line(accuracy.why)}", "$tone-borderline"))
    return Content.assemble(*parts)


def _proposal_pieces(report: CalibrationReport) -> list[Piece]:
    """Returns the threshold that the verdicts suggest and what it would do to the rate, or why they suggest none."""
    if report.proposal is None:
        why = one_line(report.not_proposed)
        return [(f"\nno other threshold suggested: {why}", "$tone-borderline")] if why else []
    now, then = report.proposal.now, report.proposal.then
    return [
        ("\nverdicts suggest ", "$tone-muted"),
        (format_threshold(report.proposal.rule.threshold), "bold $tone-borderline"),
        f": {now:.0%} → {then:.0%} ended",
    ]


def rate_content(rate: CompletionRate) -> Content:
    """Returns the rate of complete conversations without the classifier's errors, or why it is unknown."""
    covered = rate.scored / rate.conversations if rate.conversations else 0.0
    parts: list[Piece] = []
    if rate.corrected is None:
        parts.append((one_line(rate.why) or "it is unknown", "$tone-borderline"))
    else:
        parts.append((format_estimate(rate.corrected), "bold $tone-bright"))
        parts.append((" complete, errors corrected", "$tone-muted"))
    if rate.apparent is not None:
        ended, _ = rate_piece(rate.above, rate.scored)
        parts.append((f"\n{ended} ended", "$tone-muted"))
    parts.append((f" · {rate.scored:,} scored ({covered:.0%})", "$tone-muted"))
    return Content.assemble(*parts)


def success_content(
    in_force: ExampleProbe | None, newest: ExampleProbe, change: ExampleProbeChange | None
) -> Content:
    """Returns whether the verdicts tell what succeeded, and what newer ones would change.

    Args:
        in_force: The probe in force; None before there are verdicts enough.
        newest: The newest probe.
    """
    if in_force is None or in_force.test is None:
        test = newest.test
        have = (0, 0) if test is None else (test.positive, test.negative)
        return Content.assemble(
            ("fitted to verdicts from about ", "$tone-muted"),
            f"{MIN_EXAMPLES_OF_EACH} of each kind",
            (f", there are {have[0]} and {have[1]}", "$tone-muted"),
        )
    test = in_force.test
    area = test.auroc
    parts: list[Piece] = [
        (number_format.figure(area.value), "bold $tone-bright"),
        f" AUROC ({number_format.figure_range(area.low, area.high)})",
        (f" on {test.positive + test.negative:,} verdicts it did not see\n", "$tone-muted"),
    ]
    if not test.tells:
        parts.append((f"{AT_CHANCE}\n", "$tone-borderline"))
    if test.rate.corrected is not None:
        parts.append((format_estimate(test.rate.corrected), "bold $tone-bright"))
        parts.append((" succeeded, errors corrected", "$tone-muted"))
    else:
        parts.append((one_line(test.rate.why) or "the rate is unknown", "$tone-borderline"))
    newer_test = None if change is None else change.then.test
    if change is not None and newer_test is not None:
        parts += [
            ("\nnewer verdicts: ", "$tone-muted"),
            (f"{change.up:,} would come above, {change.down:,} below", "$tone-borderline"),
            f", AUROC {number_format.figure(newer_test.auroc.value)}",
        ]
        if newer_test.rate.corrected is not None:
            parts.append(f", rate {format_estimate(newer_test.rate.corrected)}")
        parts += [("   s", "bold $tone-accent"), (" takes it over", "$tone-muted")]
    return Content.assemble(*parts)


def filters_content(report: CalibrationReport, width: int) -> Content:
    """Returns a line for everything and for each saved filter: size, coverage, apparent and corrected rate."""
    head = f"{'filter':<{NAME_WIDTH}} {'n':>9} {'scored':>6} {'ended':>{number_format.RATE_WIDTH}}  complete"
    lines = [Content.styled(head, "$tone-muted")]
    rates = [("everything", report.rate)]
    rates += [(saved.name, saved.rate) for saved in report.filters]
    for name, rate in rates:
        covered = rate.scored / rate.conversations if rate.conversations else None
        scored = "–" if covered is None else f"{covered:.0%}"
        ended = number_format.rate(rate.above, rate.scored)
        shown = format_estimate(rate.corrected) if rate.corrected else one_line(rate.why) or "–"
        lines.append(
            Content.assemble(
                Content(one_line(name, NAME_WIDTH)).truncate(NAME_WIDTH, pad=True),
                (
                    f" {rate.conversations:>9,} {scored:>6} {ended:>{number_format.RATE_WIDTH}}  ",
                    "$tone-muted",
                ),
                (shown, "bold" if rate.corrected else "$tone-borderline"),
            ).truncate(max(1, width), ellipsis=True)
        )
    if not report.filters:
        lines.append(
            Content.styled("Filters saved in the list (w there) are compared here.", "$tone-muted")
        )
    return Content("\n").join(lines)


def empty_state(report: CalibrationReport) -> EmptyState:
    """Returns what to do when there is nothing to calibrate."""
    if not report.rate.scored:
        return SCORE
    return EmptyState(
        "Here your verdicts are compared with the scores. No scored conversation has a verdict yet.\n"
        f"About {MIN_VERDICTS} verdicts suggest a threshold.",
        "goes to triage; there, O and then “calibration” chooses a fair sample",
        "app.switch_mode('triage')",
    )


Cell = tuple[str, str]
"""A character of the plot and its style."""

_DIAGONAL: Cell = ("·", "$tone-muted")
"""Where the share complete equals the score."""

_THRESHOLD: Cell = ("┊", "$tone-borderline")
"""The threshold, over the whole height."""

_INTERVAL: Cell = ("│", "$tone-accent")
"""The interval of a bin's share complete."""

_POINT: Cell = ("●", "bold $tone-bright")
"""The share complete of a bin, at its mean score."""

_EMPTY: Cell = (" ", "")
"""A cell that nothing is drawn in."""

MIN_PLOT_WIDTH, MIN_PLOT_HEIGHT = 10, 4
"""Smallest plot that is drawn, in cells."""

AXIS = 5
"""Cells left of the plot, for the axis."""


def plot_cells(
    bins: Sequence[ReliabilityBin], threshold: float | None, width: int, height: int
) -> list[list[Cell]]:
    """Returns the plot, top row first: mean score to the right, share complete upwards, both from 0 to 1.

    The diagonal is where a score would be a probability; a point off it with an interval that leaves it out is
    evidence that it is not.
    """
    rows = [[_EMPTY] * width for _ in range(height)]

    def column(value: float) -> int:
        """Returns the column of a score, from the left."""
        return min(width - 1, int(value * width))

    def row(value: float) -> int:
        """Returns the row of a share, from the top."""
        return height - 1 - min(height - 1, int(value * height))

    # What is drawn later covers what was drawn before.
    for x in range(width):
        rows[row((x + 0.5) / width)][x] = _DIAGONAL
    if threshold is not None:
        for y in range(height):
            rows[y][column(threshold)] = _THRESHOLD
    for score_bin in bins:
        x = column(score_bin.predicted)
        for y in range(row(score_bin.observed.high), row(score_bin.observed.low) + 1):
            rows[y][x] = _INTERVAL
    for score_bin in bins:
        observed = score_bin.observed
        rows[row(observed.part / observed.of)][column(score_bin.predicted)] = _POINT
    return rows


class Reliability(Widget):
    """Draws the plot as large as the widget is, with its axes."""

    DEFAULT_CSS = "Reliability { height: 12; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bins: Sequence[ReliabilityBin] = ()
        self._threshold: float | None = None

    def show(self, bins: Sequence[ReliabilityBin], threshold: float | None) -> None:
        """Draws these bins; `threshold` is marked."""
        self._bins, self._threshold = bins, threshold
        self.refresh()

    def render(self) -> RenderResult:
        """Returns the rows of the plot, and below them the axis of the score."""
        width, height = self.content_size.width - AXIS, self.content_size.height - 1
        if width < MIN_PLOT_WIDTH or height < MIN_PLOT_HEIGHT:
            return Content("")
        lines: list[Content] = []
        cells = plot_cells(self._bins, self._threshold, width, height)
        for y, row in enumerate(cells):
            label = {0: "100%", height // 2: " 50%", height - 1: "  0%"}.get(y, "    ")
            lines.append(Content.assemble((label + "▏", "$tone-muted"), *row))
        lines.append(Content.styled(" " * AXIS + axis_line(self._threshold, width), "$tone-muted"))
        return Content("\n").join(lines)


def axis_line(threshold: float | None, width: int) -> str:
    """Returns the ends of the score, its name, and the mark of the threshold."""
    line = [" "] * width

    def put(text: str, column: int) -> None:
        """Writes a text from a column on, moved so that it fits."""
        column = max(0, min(width - len(text), column))
        line[column : column + len(text)] = text

    put("0", 0)
    put("1", width - 1)
    # In the half that the mark of the threshold is not in.
    put("score", width // 4 - 2 if threshold is None or threshold >= 0.5 else 3 * width // 4 - 2)
    if threshold is not None:
        put(f" {number_format.probability(threshold)} ", int(threshold * width) - 1)
    return "".join(line)
