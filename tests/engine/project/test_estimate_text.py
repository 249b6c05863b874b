"""What a run would cost, in words."""

from __future__ import annotations

from engine.project.records import Estimate, StageCost, estimate_lines


def test_what_is_done_with_which_model_for_how_long() -> None:
    """Conversations, tokens, time and speed stand first, then the model with its adapter and what it is asked for."""
    cost = Estimate(
        36, 1_200, 240.0, 5.0, "SmolLM2", adapter="endings", of=90, asked=("labels", "merges")
    )
    assert estimate_lines(cost) == [
        "about 36 of 90, those that words leave open first · 1.2k tokens · about 5 s · 240 tokens/s",
        "with SmolLM2 and the adapter endings: labels, merges",
    ]


def test_endpoints_cost_by_stage_and_in_all() -> None:
    """Over endpoints each stage has its cost; where it depends on results to come, from the least to the most."""
    costs = (StageCost("label", 7, 900, 90, 0.5), StageCost("propose", 10, 100, 10, 0.5, 0.0))
    assert estimate_lines(Estimate(36, None, None, None, "gpu1", costs=costs)) == [
        "36 conversations",
        "with gpu1",
        "label      about 7 requests, 900 tokens read, 90 written, cost 0.5000",
        "propose    about 0 to 10 requests, 0 to 100 tokens read, 0 to 10 written, cost 0.0000 to 0.5000",
        "in all     about 7 to 17 requests, 900 to 1,000 tokens read, 90 to 100 written, cost 0.5000 to 1.0000",
    ]


def test_nothing_is_left() -> None:
    """A run with nothing to do says so; one that only fits says that it reads nothing."""
    assert estimate_lines(Estimate(0, None, None, None, "m"))[0].startswith("Nothing is left to do")
    assert "only the fit is left" in estimate_lines(Estimate(9, 0, None, 0.0, "m"))[0]
