"""Formats the agreement of two answers to the same question. Without Textual."""

from __future__ import annotations

from engine.base import number_format
from engine.questions.records.calibration import Agreement


def format_agreement(agreement: Agreement) -> str:
    """The share of equal answers, Cohen's kappa and the number of pairs, `86% (κ .71, n 34)`; a dash without pairs."""
    if agreement.same is None:
        return "–"
    kappa = "" if agreement.kappa is None else f"κ {number_format.signed(agreement.kappa)}, "
    share = agreement.same.part / agreement.same.of
    return f"{100 * share:.0f}% ({kappa}n {agreement.n})"
