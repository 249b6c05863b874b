"""The models that are recommended by memory."""

from __future__ import annotations

import pytest

from engine.model.hub.repositories import recommended_sets

GB = 1_000_000_000


class TestShipped:
    def test_every_machine_has_every_role(self) -> None:
        """For 8, 16, 24 and 80 GB there is a fitting model to run, to train on and to embed with."""
        sets = recommended_sets()
        assert [one.memory for one in sets] == [8 * GB, 16 * GB, 24 * GB, 80 * GB]
        for one in sets:
            assert {model.role for model in one.models} == {"instruct", "base", "embedder"}
            for model in one.models:
                assert 0 < model.size < one.memory * 0.75
                assert model.repository.count("/") == 1
                assert model.license
                assert model.note.endswith(".")


@pytest.mark.parametrize(
    ("memory", "meant"), [(None, None), (4 * GB, None), (15.4 * GB, 16), (14 * GB, 8), (25 * GB, 24), (500 * GB, 80)]
)  # fmt: skip
def test_the_set_for_a_machine(memory: int | None, meant: int | None) -> None:
    """The largest set that a machine holds is taken; makers' figures may be a tenth above the real memory."""
    marked = [models.memory // GB for models in recommended_sets(memory) if models.here]
    assert marked == ([] if meant is None else [meant])
