"""Contrasts of tree measures with plain baselines, and the sentences on them."""

from __future__ import annotations

import numpy as np
import pytest

from engine.results.metrics import conclusions
from engine.results.metrics.claims import ClaimTable, claim_tables
from engine.results.metrics.uncertainty import Case

CLAIM = "reward 0"


def table(n: int = 80, better: float = 3.0, positives: int = 30, how: str = "") -> ClaimTable:
    """Leaves that predict to a given degree, beside a length and a perplexity that predict nothing."""
    rng = np.random.default_rng(7)
    cases = []
    for at in range(n):
        wrong = at < positives
        plain = {"length": float(rng.normal()), f"perplexity{how}": float(rng.normal())}
        leaves = {f"leaves{how}": float(rng.normal() + better * wrong)}
        cases.append(Case(at, {**leaves, **plain}, {CLAIM: wrong}))
    (found,) = claim_tables(cases, [CLAIM])
    return found


class TestContrasts:
    def test_which(self) -> None:
        """Each measure is compared with each baseline of the same summary; the length is the same for all."""
        assert [(c.one, c.other) for c in table().contrasts] == [
            ("leaves", "length"),
            ("leaves", "perplexity"),
        ]
        assert [(c.one, c.other) for c in table(how=" most").contrasts] == [
            ("leaves most", "length"),
            ("leaves most", "perplexity most"),
        ]

    def test_corrected(self) -> None:
        """Two tests: the smaller p is doubled."""
        ps = sorted((c.p, c.corrected) for c in table(better=0.3).contrasts if c.p is not None)
        assert ps[0][1] == pytest.approx(min(1, 2 * ps[0][0]))

    def test_better_and_no_better(self) -> None:
        """Leaves that predict well are called better; leaves that predict nothing are not."""
        lines = conclusions.of_claim(table())
        assert "significantly better than the best plain figure: 1;" in lines[0]
        assert ": better, n = 80 (" in lines[1]
        lines = conclusions.of_claim(table(better=0.0))
        assert "significantly better than the best plain figure: none;" in lines[0]
        assert "no significant difference, n = 80" in lines[1]


class TestWords:
    @pytest.mark.parametrize(
        ("p", "words"),
        [(0.0004, "p < .001"), (0.0421, "p = .042"), (0.31, "p = .31"), (1.0, "p = 1.00")],
    )
    def test_p(self, p: float, words: str) -> None:
        """p has two digits, three below a tenth, so that significant and not significant look different; it is
        never 0.
        """
        assert conclusions.format_p(p) == words
