"""What importing a part of the program pulls in, in fresh interpreters: contracts on code miss what is indirect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.project.project import Project

REPOSITORY = Path(__file__).resolve().parents[1]

SLOW = {
    "llama_cpp", "torch", "transformers", "sentence_transformers", "scipy", "sklearn", "hnswlib", "huggingface_hub",
    "sqlite_utils",
}  # fmt: skip
"""Libraries that take a tenth of a second and more to import."""


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


def test_the_command_line_is_light() -> None:
    """`workbench --help` needs nothing but the standard library, so it answers at once."""
    assert foreign(pulled_in("workbench", "workbench.cli", "engine.base.folders")) == set()


def test_what_knows_no_model_needs_only_the_standard_library() -> None:
    """The ground floor, the readers, the store and the import need msgspec only, which has no dependencies; it takes
    typing_extensions where that is installed."""
    modules = (
        "engine.base.conversation", "engine.base.errors", "engine.base.events", "engine.conversations.records",
        "engine.base.text", "engine.base.network_guard", "engine.formats.inputs", "engine.project.project",
        "engine.simulate.demo", "engine.conversations.stages",
    )  # fmt: skip
    assert foreign(pulled_in(*modules)) <= {"msgspec", "typing_extensions"}


def test_the_program_never_loads_llama_cpp() -> None:
    """The native library is loaded in the model process only: it writes to the descriptors the screens draw on."""
    assert "llama_cpp" not in pulled_in(
        "engine.model.process.process",
        "engine.completeness.stages.scoring",
        "engine.opener.open_project",
    )


def test_the_pure_rooms_know_neither_the_database_nor_the_native_library() -> None:
    """Scoring and generation are computed on any model, so they import neither."""
    pulled = pulled_in("engine.completeness.scoring", "engine.model.generation")
    assert not pulled & {"sqlite3", "sqlite_utils", "llama_cpp", "textual"}


def test_opening_a_project_waits_for_no_model() -> None:
    """The app with its first screen is imported without the libraries that take long."""
    assert not pulled_in("workbench.app", "screens.overview.screen") & {
        *SLOW, "numpy", "httpx", "pygments",
    }  # fmt: skip


def test_screens_and_services_wait_for_no_model() -> None:
    """All screens are imported without the libraries that take long, except numpy."""
    screens = sorted(
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "screens").rglob("*.py")
    )
    assert not pulled_in(*screens) & SLOW


def test_commands_that_only_read_import_what_they_print(tmp_path: Path) -> None:
    """`status`, `list` and an export of scores wait for no screen, no reader of formats and no library of numbers."""
    project = tmp_path / "p.wb"
    Project.open(project, create=True).close()
    code = (
        "import sys\nfrom workbench.cli import main\n"
        "for command, *words in ['status'], ['list'], ['export', 'scores']:\n"
        f"    assert main([command, {str(project)!r}, *words]) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    unwanted = {
        *SLOW,
        "numpy",
        "httpx",
        "textual",
        "engine.formats.detect",
        "engine.formats.registry",
        "engine.model.process",
    }
    assert not set(done.stderr.split()) & unwanted


def test_the_doctor_runs_without_the_screens() -> None:
    """A broken Textual does not keep the doctor from saying so."""
    assert not pulled_in("engine.opener.doctor") & {"textual", "rich", "llama_cpp"}
