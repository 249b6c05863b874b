"""The calibration of scores at every boundary, as a table."""

from __future__ import annotations

from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.results.records import CompletenessTable

_COLUMNS = (
    ReportColumn("", "text", text_title="every boundary"),
    ReportColumn("boundaries", "count", means="Places where a conversation could end."),
    ReportColumn("ends", "share", means="Share of them at which it does."),
    ReportColumn("mean score", "share", means="Of probabilities it would be that share."),
    ReportColumn("ECE", "interval", means="Calibration error of the scores as they are."),
    ReportColumn("ECE corrected", "interval", means="From even odds to the share of ends."),
)


def table(found: CompletenessTable) -> ReportTable:
    """A row for each scoring; none where it was not asked for."""
    rows = [
        ReportRow((one.name, one.boundaries, one.share, one.mean, one.ece, one.corrected))
        for one in found.every_boundary
    ]
    return ReportTable("every boundary", _COLUMNS, tuple(rows))
