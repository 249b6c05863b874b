"""Isolates tests from the person who runs them, and puts the longest files first."""

from __future__ import annotations

import functools
import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before NumPy is loaded, here and in processes that tests start: on cores that others use too, a thread that waits for
# its half of a small matrix computes as long as all of the test. OpenMP waits as in the model process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from engine.base import network_guard
from engine.model.catalog import embedded_model
from engine.opener.open_project import register_field_queries
from workbench import cli

register_field_queries()
# Commands that run in this process share one parser; made anew for each, it was most of the time of a short one.
vars(cli)["build_parser"] = functools.cache(cli.build_parser)

# A busy machine is no reason to fail; half of the usual examples find what the usual number finds.
settings.register_profile("untimed", deadline=None, max_examples=50)
settings.load_profile("untimed")

LONGEST = (
    "workbench/test_without_network.py",
    "workbench/test_guides.py",
    "screens/triage/test_triage.py",
    "screens/shell/test_shell.py",
    "screens/shell/test_session.py",
    "screens/shell/test_mapping.py",
    "workbench/test_first_look.py",
    "engine/completeness/stages/test_fitting.py",
    "engine/goals/stages/test_goal_questions.py",
    "engine/completeness/stages/test_scoring.py",
    "screens/test_hostile_text.py",
    "engine/model/service/test_server_kinds.py",
    "workbench/test_endings.py",
    "workbench/test_references.py",
    "engine/model/process/test_process.py",
    "workbench/test_keys_stay_secret.py",
    "workbench/test_lost_output.py",
    "engine/model/service/test_endpoints.py",
    "engine/completeness/stages/test_refining.py",
    "terminal/test_screens.py",
    "engine/model/endpoints/test_real_peers.py",
    "screens/merge_review/test_merge_review.py",
    "screens/overview/test_overview.py",
    "screens/test_snapshots.py",
)
"""The files that take longest: those that compute and those that wait by turns."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first: one that began last would run alone at the end."""
    ranks = {f"tests/{name}": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than cores: a screen test waits for half of its time."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_finish() -> None:
    """Excludes modules and tests, which all live to the end, from every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


HOMES = itertools.count()


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test, and every process that it starts, has an empty home, data and cache folder of its own."""
    # Not `mktemp`: it finds a free number by reading all earlier names, most of the time of a short test.
    home: Path = tmp_path_factory.getbasetemp() / "homes" / str(next(HOMES))
    home.mkdir(parents=True)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("WORKBENCH_DATA", str(home / "data"))
    monkeypatch.setenv("WORKBENCH_CACHE", str(home / "cache"))


@pytest.fixture(autouse=True)
def no_guard_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in the process of the tests installs no guard, which nothing could take off again: the tests
    after it have clients of servers on this machine. The guard is tested in processes of its own."""
    monkeypatch.setattr(network_guard, "install", lambda: None)
    monkeypatch.delenv(network_guard.VARIABLE, raising=False)


@pytest.fixture(scope="session")
def shipped() -> Path:
    """The weights that come with the program."""
    return embedded_model()


@pytest.fixture(scope="session")
def quick_weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same weights in Q8_0, which every processor reads more than twice as fast as the format as shipped."""
    from engine.model.llamacpp.files import quantize  # most tests need no native library

    path = tmp_path_factory.mktemp("weights") / "q8_0.gguf"
    quantize(shipped, path, "q8_0", 2)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def shallow_weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Five of the thirty layers of the shipped weights, in Q8_0: what they write makes no sense and costs a fifth. They
    serve claims about what happens around a model: that a kill, a cancel or another process changes no bit.
    """
    from tests.engine.model.weights import write_shallow  # most tests need no native library

    path = tmp_path_factory.mktemp("weights") / "shallow.gguf"
    write_shallow(shipped, path)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def single_layer_weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One of the thirty layers of the shipped weights, in Q8_0, for tests in which a model reads and writes nothing."""
    from tests.engine.model.weights import ALL_BUT_FIRST, write_shallow

    path = tmp_path_factory.mktemp("weights") / "single_layer.gguf"
    write_shallow(shipped, path, ALL_BUT_FIRST)
    yield path
    path.unlink()
