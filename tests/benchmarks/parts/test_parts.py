"""the bench with a small budget: every figure is there with the right type; no size is asserted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from engine.base.errors import UsageError, WorkbenchError
from engine.conversations.filter_fields import SortKey
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.stages import ImportStage
from engine.formats.inputs import open_inputs
from engine.formats.records import Parsed
from engine.jobs.runner import JobRunner
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.benchmarks.__main__ import main
from tests.benchmarks.parts import runner
from tests.benchmarks.parts.bare_import import bare_import
from tests.benchmarks.parts.datasets import long_items, scoring_blocks, write_import_file
from tests.benchmarks.parts.list_project import TAG, write_list_project
from tests.benchmarks.parts.list_times import FILTERS, SEARCHES
from tests.benchmarks.parts.runner import BUDGET, PARTS, SECONDS, run
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
        found = quick(tmp_path, "import")["import"]
        assert found["messages"] >= 300
        positive(found, "messages_per_s", "bare_messages_per_s", "fraction_of_bare_sqlite")
        positive(found, "mapped_messages_per_s", "mapped_fraction_of_coded")

    def test_import_of_a_given_file(self, tmp_path: Path) -> None:
        """A given file is measured instead."""
        source = tmp_path / "mine.jsonl"
        write_jsonl(sample_conversations(count=3), source)
        found = quick(tmp_path, "import", file=source)["import"]
        assert found["messages"] == sum(len(c.messages) for c in sample_conversations(count=3))

    def test_import_that_fails_is_no_figure(self, tmp_path: Path) -> None:
        """A file that cannot be imported completely ends the bench with the reason."""
        source = tmp_path / "broken.jsonl"
        write_jsonl(sample_conversations(count=3), source)
        with source.open("a") as file:
            file.write("{}\n")
        with pytest.raises(WorkbenchError, match="quarantined"):
            quick(tmp_path, "import", file=source)

    def test_list(self, tmp_path: Path) -> None:
        """The list is measured on as many conversations as asked for; the slowest kinds are those of the breakdown."""
        found = quick(tmp_path, "list", rows=450)["list"]
        positive(
            found,
            *("messages", "open_ms", "page_ms_p95", "sort_ms", "filter_ms", "search_ms"),
            *("counts_ms", "rss_mb", "file_mb"),
        )
        assert found["rows"] == 450
        kinds = found["kinds"]
        assert {key.split()[0] for key in kinds["sort"]} == set(get_args(SortKey))
        assert found["sort_ms"] == max(kinds["sort"].values())
        assert found["filter_ms"] == max(kinds["filter"].values()) > 0
        assert found["search_ms"] in kinds["search"].values()

    def test_startup(self, tmp_path: Path) -> None:
        """The program is started as a process and draws a project in a terminal."""
        found = quick(tmp_path, "startup")["startup"]
        positive(
            found, "help_s", "app_import_s", "first_paint_s", "bare_paint_s", "paint_over_bare"
        )
        assert found["help_s"] <= found["help_median_s"]

    def test_model(self, shallow_weights: Path, tmp_path: Path) -> None:
        """Scoring, the watch and tuning are measured on the default model, and both ways of scoring agree within its
        noise."""
        tune(shallow_weights, tmp_path / "data", tmp_path / "cache")
        found = quick(tmp_path, "tune", "completeness", "watch")

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
            "probe_fit_seconds",
            "first_layers_gain",
            "first_layers_processor_gain",
        )
        positive(found["watch"], "events_per_s", "full_events_per_s", "speedup_over_full")
        assert found["watch"]["largest_difference"] < 0.05
        positive(found["tune"], "gain", "tokens_per_s", "shipped_tokens_per_s", "threads")
        assert found["tune"]["chosen"] == "q8_0"
        assert "CPU" in found["machine"]["llama_cpp"]

    def test_http(self, shallow_weights: Path, tmp_path: Path) -> None:
        """Replies over HTTP are measured beside those of the model process, only when the part is named."""
        pytest.importorskip("sse_starlette", reason="needs llama-cpp-python[server]")
        tune(shallow_weights, tmp_path / "data", tmp_path / "cache")
        found = quick(tmp_path, "http")["http"]
        assert found["replies"] == 2
        positive(found, "tokens_per_s", "in_process_tokens_per_s", "fraction_of_in_process")
        assert "http" not in PARTS

    def test_compare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """An earlier result stands beside the new one, with the ratio of each figure and the rounds of both."""
        earlier = quick(tmp_path, "import")
        earlier["import"] |= {"messages_per_s": 1e-3, "fractions": [1e6, 3e6, 2e6]}
        earlier["machine"]["cores"] = 4_711
        (tmp_path / "before.json").write_text(json.dumps(earlier))
        command = ["import", "--quick", "--compare", str(tmp_path / "before.json")]
        assert main([*command, "--json"]) == 0
        found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["compared"]}
        assert found["import.messages_per_s"]["ratio"] > 1_000
        rounds = found["import.fractions"]
        assert (rounds["before"], rounds["before_range"]) == (2e6, [1e6, 3e6])
        assert rounds["overlaps"] is False
        assert "part_seconds.import" in found
        assert main(command) == 0
        printed = capsys.readouterr()
        assert "2,000,000.000 (1,000,000.000 to 3,000,000.000)" in printed.out
        assert "cores: 4711" in printed.err
        (tmp_path / "before.json").write_text("[]")
        assert main(command) == 2

    def test_budget(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each part is given its share of the minutes, and one that takes longer is named."""
        told: dict[str, float] = {}

        def part(name: str) -> Any:
            def work(progress: Any, *, seconds: float, **size: Any) -> dict[str, Any]:
                told[name] = seconds
                return {}

            return work

        for name in ("startup", "import", "list", "goals", "training"):
            monkeypatch.setattr(runner, f"bench_{name}", part(name))
        notes: list[str] = []
        which = ["startup", "import", "list", "goals", "training"]
        work = partial(run, which, notes.append, data=tmp_path / "data", cache=tmp_path / "cache")
        found = work(minutes=BUDGET)
        assert told == found["part_budget_seconds"] == {name: SECONDS[name] for name in which}
        assert sum(SECONDS.values()) == 60 * BUDGET
        assert notes == []
        work(minutes=1e-9)
        assert told["list"] < 1e-6
        assert [note.split()[0] for note in notes] == which

    def test_trees(self, shallow_weights: Path, tmp_path: Path) -> None:
        """Trees are grown in three ways, with a ratio for each round, and are the same within the model's noise."""
        tune(shallow_weights, tmp_path / "data", tmp_path / "cache")
        found = quick(tmp_path, "trees")["trees"]
        positive(found, "speedup_over_reprompt", "speedup_over_sequential", "overhead_over_raw")
        assert found["trees"] == 1
        assert len(found["reprompt_ratios"]) == len(found["sequential_ratios"]) == 1
        assert 0 < found["reprompted_branches"] <= found["branches"]
        assert found["same_leaves"]

    def test_unknown_part(self, tmp_path: Path) -> None:
        """A part that does not exist is an error of usage that names those that do."""
        with pytest.raises(UsageError, match="completeness"):
            quick(tmp_path, "speed")


class TestMaterial:
    def test_listed_project(self, tmp_path: Path) -> None:
        """The project of the list is valid, the same for the same seed, and has something of every kind."""
        paths = tmp_path / "a.wb", tmp_path / "b.wb"
        count, again = (write_list_project(path, 600, lambda note: None) for path in paths)
        assert content(paths[0]) == content(paths[1])
        check_whole(paths[0])
        with Project.open(paths[0]) as project:
            store = ConversationService(project)
            counts = store.counts()
            assert (counts.conversations, counts.messages, counts.sources) == (600, count, 4)
            assert count == again > 4 * 600
            assert min(counts.complete, counts.incomplete, counts.unscored, counts.verdicts) > 0
            assert [tag for tag, _ in store.tags()] == [TAG]
            for text in (*FILTERS, *SEARCHES.values()):
                assert 0 < len(store.ids(ListQuery(parse_filter(text)))) <= 600, text

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

    def test_generated_conversations_are_all_different(self, tmp_path: Path) -> None:
        """The generated conversations have no duplicates, which an import would skip."""
        source = tmp_path / "in.jsonl"
        write_import_file(source, 3_000)
        (opened,) = open_inputs([source])
        records = [record for record in opened.records() if isinstance(record, Parsed)]
        messages = [record.conversation.messages for record in records]
        assert len(set(messages)) == len(messages) > len(sample_conversations())

    def test_long_conversations_have_ten_boundaries(self) -> None:
        """The speed-up over one prompt per boundary is measured at exactly ten of them."""
        items = long_items(5)
        assert [len(item.boundaries) for item in items] == [10] * 5
        assert len({item.texts for item in items}) == 5

    def test_blocks_hold_what_was_asked_for(self) -> None:
        """Blocks have whole conversations up to about the given number of characters, as in a run."""
        blocks = scoring_blocks(30_000)
        chars = sum(len(text) for block in blocks for item in block for text in item.texts)
        assert 27_000 < chars <= 30_000
        assert all(item.boundaries for block in blocks for item in block)
