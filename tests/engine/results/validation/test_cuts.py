"""Several configurations of scores of the same conversations, tested on cuts and against the truth."""

from __future__ import annotations

from engine.results.validation.cuts import (
    Place,
    Values,
    best_against_baseline,
    cut_places,
    cut_test,
    truth_tables,
)

NAMES = {key: f"c/{key}" for key in range(1, 21)}
RISING: Values = {key: {1: 0.1, 3: 0.2, 5: 0.9} for key in NAMES}


AT_END = {key: Place(5, None, (5,)) for key in NAMES}
FLAT: Values = {key: {1: 0.5, 3: 0.5, 5: 0.5} for key in NAMES}
LOW_WHERE_FAILED: Values = {key: {5: 0.1 if key > 15 else 0.8} for key in NAMES}


class TestPlaces:
    def test_only_what_all_have_scored(self) -> None:
        """A conversation without a score in one configuration, or with another end, is in no table."""
        lacking = {
            **RISING,
            2: {1: 0.1, 3: 0.2, 5: None},
            3: {1: None, 3: None, 5: 0.9},
            4: {1: 0.1, 3: 0.9},
            5: {1: 0.1, 3: 0.2, 5: 0.8, 7: 0.9},
        }
        del lacking[6]
        found = cut_places({"a": RISING, "b": lacking}, NAMES, seed=0)
        assert found.keys() == NAMES.keys() - {2, 3, 4, 5, 6}


class TestCut:
    def test_a_way_that_knows(self) -> None:
        """Scores that jump at the end separate whole from cut for all that can be cut."""
        where = cut_places({"a": RISING}, NAMES, 0)
        where[1] = Place(5, None, (5,))
        found = cut_test(RISING, where, 0.5).classification()
        assert found.auroc.value == found.f1.value == 1
        turned = {key: {m: 1 - (v or 0) for m, v in one.items()} for key, one in RISING.items()}
        assert cut_test(turned, where, 0.5).classification().auroc.value == 0


class TestTruth:
    def test_low_values_find_failures(self) -> None:
        """Scores that are low where the reward is 0 have an area of 1 against it; the others have one half."""
        claims = {key: {"reward 0": key > 15} for key in NAMES}
        flat: Values = {key: {5: 0.5} for key in NAMES}
        ways = {"a": LOW_WHERE_FAILED, "flat": flat}
        (table,) = truth_tables(ways, AT_END, claims)
        assert (table.claim, table.holds, table.fails, table.known) == ("reward 0", 5, 15, 20)
        first, second = table.rows
        assert first.auroc.value == first.ap.value == 1
        assert first.auroc.low < 1
        assert (second.name, second.auroc.value, second.ap.value) == ("flat", 0.5, 0.25)

    def test_coverage(self) -> None:
        """Conversations with truth but without scores are counted and not in the table; two truths with the same values
        make one table.
        """
        claims = {key: {"reward 0": key > 15, "not complete": key > 15} for key in NAMES}
        where = {key: place for key, place in AT_END.items() if key > 10}
        (table,) = truth_tables({"a": LOW_WHERE_FAILED}, where, claims)
        assert (table.claim, table.holds, table.fails, table.known) == ("not complete", 5, 5, 20)


class TestBaseline:
    def test_the_best_scores_are_set_against_the_best_baseline(self) -> None:
        """A perfect configuration is better than a useless baseline; without a baseline nothing is said."""
        ways = {"a": RISING, "b": FLAT, "rule": FLAT}
        where = cut_places(ways, NAMES, 0)
        said = best_against_baseline(ways, where, ["rule"])
        assert said == "a 1.00 against rule .50: better (p < .001)."
        assert best_against_baseline(ways, where, []) == ""
