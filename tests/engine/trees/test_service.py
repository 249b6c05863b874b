"""Trees that grow further with the adapter that they were grown with, on the real model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.base.errors import UsageError
from engine.conversations.filters import ListQuery
from engine.conversations.stages import ImportStage
from engine.model.catalog import embedded_model
from engine.model.llamacpp.model import LlamaModel
from engine.opener.open_project import OpenProject
from engine.project import runs
from engine.simulate.demo import write_jsonl
from engine.trees.records import TreeRequest
from tests.engine.model.weights import SMALL, write_adapter


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[OpenProject]:
    """Two conversations, and a model that is tuned already."""
    told = (
        Message("user", "What is the capital of France?"),
        Message("assistant", "The capital of France is Paris."),
    )
    write_jsonl([Conversation(f"paris/{n}", told) for n in (1, 2)], tmp_path / "talks.jsonl")
    with OpenProject(tmp_path / "p.wb", create=True) as made:
        result = {
            "file": None,
            "chosen": "as is",
            "threads": None,
            "tokens_per_s": 500.0,
            "noise": 0.01,
        }
        made.catalog.record_tuning(made.catalog.entry(None), result)
        made.runner.run(ImportStage(made.project, [str(tmp_path / "talks.jsonl")]))
        yield made


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    model = LlamaModel(embedded_model(), SMALL, lambda: False)
    path = write_adapter(tmp_path / "turned.gguf", model, seed=3)
    model.close()
    return path


def requested(alpha: float, adapter: Path | None = None) -> TreeRequest:
    """A request for trees of all conversations at the last answer."""
    default = TreeRequest()
    return replace(default, tree=replace(default.tree, alpha=alpha), adapter=adapter)


def finished(workspace: OpenProject) -> None:
    """Waits for the jobs that run."""
    deadline = time.monotonic() + 300
    while workspace.runner.active():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_grows_on_with_its_adapter(workspace: OpenProject, adapter: Path) -> None:
    """A tree grows further with its own adapter, found by content although it is not in the catalog; when the file is
    gone, the error names the adapter.
    """
    trees = workspace.trees
    trees.start(requested(0.2, adapter))
    finished(workspace)
    item = trees.items(ListQuery())[0]
    trees.grow_on(item, 0, 0.1)
    finished(workspace)

    (grown,) = [one for one in trees.items(ListQuery()) if one.name == item.name]
    assert grown.row.nodes > item.row.nodes
    assert grown.row.answer_log_prob == item.row.answer_log_prob
    with workspace.project.reading() as conn:
        run = runs.get(conn, grown.row.run_id)
    assert run is not None
    assert run.stage == "grow"
    assert run.fingerprints["adapter_sha256"] == workspace.catalog.sha256(adapter)

    adapter.unlink()
    with pytest.raises(UsageError, match=r"with the adapter turned\.gguf, which"):
        trees.grow_on(grown, 0, 0.05)
