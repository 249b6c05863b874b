"""The models that are recommended by memory, and a person's own list in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.model.hub.repositories import recommended_sets

GB = 1_000_000_000
OWN = """
[[set]]
memory = 32
[[set.model]]
role = "instruct"
repository = "me/Mine-GGUF"
file = "q8"
size = 1.5
license = "mit"
note = "Mine."
[[set]]
memory = 4
model = []
"""


class TestShipped:
    def test_every_machine_has_every_role(self, tmp_path: Path) -> None:
        """For 8, 16, 24 and 80 GB there is a fitting model to run, to train on and to embed with."""
        sets = recommended_sets(tmp_path)
        assert [one.memory for one in sets] == [8 * GB, 16 * GB, 24 * GB, 80 * GB]
        for one in sets:
            assert {model.role for model in one.models} == {"instruct", "base", "embedder"}
            for model in one.models:
                assert 0 < model.size < one.memory * 0.75
                assert model.repository.count("/") == 1
                assert model.license
                assert model.note.endswith(".")


class TestOwn:
    def test_takes_their_place(self, tmp_path: Path) -> None:
        """A file in the config folder replaces the program's list; its machines are in ascending order."""
        (tmp_path / "recommended.toml").write_text(OWN)
        small, large = recommended_sets(tmp_path)
        assert (small.memory, small.models, large.memory) == (4 * GB, (), 32 * GB)
        assert (large.models[0].repository, large.models[0].size) == ("me/Mine-GGUF", 1_500_000_000)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("set = 3", "int"),
            ("[[set]]\nmodel = []", "'memory' is missing"),
            (OWN.replace("instruct", "poet"), "role is 'poet'"),
            (OWN.replace('"mit"', "7"), "texts"),
            ("[[set", "Expected"),
        ],
    )
    def test_mistakes(self, text: str, why: str, tmp_path: Path) -> None:
        """A file that cannot be read is an error with its name and what is wrong."""
        (tmp_path / "recommended.toml").write_text(text)
        with pytest.raises(UsageError, match=why) as caught:
            recommended_sets(tmp_path)
        assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize(
    ("memory", "meant"), [(None, None), (4 * GB, None), (15.4 * GB, 16), (14 * GB, 8), (25 * GB, 24), (500 * GB, 80)]
)  # fmt: skip
def test_the_set_for_a_machine(memory: int | None, meant: int | None, tmp_path: Path) -> None:
    """The largest set that a machine holds is taken; makers' figures may be a tenth above the real memory."""
    marked = [models.memory // GB for models in recommended_sets(tmp_path, memory) if models.here]
    assert marked == ([] if meant is None else [meant])
