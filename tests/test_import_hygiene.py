"""What importing a part of the program pulls in, in fresh interpreters: contracts on code miss what is indirect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def pulled_in(*modules: str) -> set[str]:
    """Names of the top-level modules that are there after importing these and were not before."""
    code = (
        "import sys; before = set(sys.modules); "
        f"import {', '.join(modules)}; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def foreign(names: set[str]) -> set[str]:
    """What is neither of the standard library nor of this program."""
    own = {"engine", "screens", "workbench"}
    return {name for name in names if name not in sys.stdlib_module_names} - own


@pytest.mark.parametrize("module", ["workbench", "workbench.cli", "engine.folders"])
def test_the_command_line_is_light(module: str) -> None:
    """`workbench --help` needs nothing but the standard library, so it answers at once."""
    assert foreign(pulled_in(module)) == set()


@pytest.mark.parametrize(
    "module",
    [
        "engine.conversation",
        "engine.errors",
        "engine.events",
        "engine.records.conversations",
        "engine.text",
        "engine.network_guard",
        "engine.formats",
        "engine.store.project",
        "engine.simulate.samples",
        "engine.stages.importing",
    ],
)
def test_what_knows_no_model_needs_only_the_standard_library(module: str) -> None:
    """The ground floor, the readers, the store and the import run without any package installed."""
    assert foreign(pulled_in(module)) == set()


@pytest.mark.parametrize(
    "module",
    ["engine.worker.client", "engine.stages.completeness.scoring", "engine.services.workspace"],
)
def test_the_program_never_loads_llama_cpp(module: str) -> None:
    """The native library is loaded in the model process only: it writes to the descriptors the screens draw on."""
    assert "llama_cpp" not in pulled_in(module)


def test_the_pure_rooms_know_neither_the_database_nor_the_native_library() -> None:
    """Scoring and generation are computed on any model, so they import neither."""
    pulled = pulled_in("engine.completeness.block", "engine.model.generation")
    assert not pulled & {"sqlite3", "sqlite_utils", "llama_cpp", "textual"}


def test_opening_a_project_waits_for_no_model() -> None:
    """The app with all its screens and services is imported without the libraries that take long, except numpy."""
    slow = {
        "llama_cpp", "torch", "transformers", "sentence_transformers", "scipy", "sklearn", "hnswlib",
        "huggingface_hub", "matplotlib", "sqlite_utils",
    }  # fmt: skip
    assert not pulled_in("workbench.app") & slow


def test_the_doctor_runs_without_the_screens() -> None:
    """A broken Textual does not keep the doctor from saying so."""
    assert not pulled_in("workbench.doctor") & {"textual", "rich", "llama_cpp"}
