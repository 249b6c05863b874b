"""the bench with a small budget: every figure is there with the right type; no size is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from tests.benchmarks.parts.bare_import import bare_import
from tests.benchmarks.parts.datasets import write_import_file
from tests.benchmarks.parts.runner import run
from tests.engine.model.tuned import tune
from tests.engine.project.support import check_whole, content


def quick(tmp_path: Path, *which: str, **more: Any) -> dict[str, Any]:
    """Runs parts of the bench in folders of their own; asserts that the result can be printed as JSON."""
    found = run(
        which,
        lambda note: None,
        data=tmp_path / "data",
        cache=tmp_path / "cache",
        quick=True,
        **more,
    )
    again: dict[str, Any] = json.loads(json.dumps(found))
    return again


def positive(part: dict[str, Any], *names: str) -> None:
    """Asserts that these figures are there and above zero."""
    assert {name: part[name] for name in names if not part[name] > 0} == {}


class TestParts:
    def test_import(self, tmp_path: Path) -> None:
        """The import is measured on generated messages, beside a bare import as a baseline."""
        results = quick(tmp_path, "import")["import"]
        assert results["messages"] >= 300
        positive(results, "messages_per_s", "bare_messages_per_s", "fraction_of_bare_sqlite")

    def test_model(self, shallow_weights: Path, tmp_path: Path) -> None:
        """Scoring is measured on the default model, and both ways of scoring agree within its noise."""
        tune(shallow_weights, tmp_path / "data", tmp_path / "cache")
        found = quick(tmp_path, "completeness")

        scoring = found["completeness"]
        for prefix in ("", "base_"):
            positive(
                scoring,
                *(prefix + name for name in (
                    "tokens_per_s", "raw_decode_tokens_per_s", "fraction_of_raw",
                    "per_boundary_tokens_per_s", "speedup_over_reprompt",
                )),
            )  # fmt: skip
            assert scoring[prefix + "long_boundaries"] == 2
            assert scoring[prefix + "largest_difference"] < 0.05
        positive(
            scoring,
            "probe_tokens_per_s",
            "probe_raw_decode_tokens_per_s",
        )
        assert "CPU" in found["machine"]["llama_cpp"]


class TestMaterial:
    def test_yardstick_stores_the_same_messages(self, tmp_path: Path) -> None:
        """The bare import and the import store the same text with a valid index."""
        source = tmp_path / "in.jsonl"
        write_import_file(source, 200)
        ours, bare = tmp_path / "ours.wb", tmp_path / "bare.wb"
        with Project.open(ours, create=True) as project:
            JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))
        Project.open(bare, create=True).close()
        count, seconds = bare_import(bare, source)

        assert seconds > 0
        check_whole(bare)
        mine, theirs = content(ours), content(bare)
        assert count == len(mine["message"])
        # id, conversation, index, role, name, content
        assert [row[:6] for row in theirs["message"]] == [row[:6] for row in mine["message"]]
        for table in ("conversation", "original", "truth"):
            assert len(theirs[table]) == len(mine[table]) > 0, table
