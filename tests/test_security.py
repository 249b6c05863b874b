"""Claims of the security page that hold for all source: nothing executes data, and nothing listens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.licenses import PERMITTED, core, licenses_of

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = [
    path
    for folder in ("engine", "screens", "training", "workbench")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]

EXECUTING = {
    "eval", "exec", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.load",
    "marshal.loads", "shelve.open", "dill.load", "joblib.load", "yaml.load", "yaml.unsafe_load", "torch.load",
    "runpy.run_path", "runpy.run_module", "code.interact",
}  # fmt: skip
"""Calls that run what they are given."""

TRUSTING = {"shell=", "allow_pickle=", "trust_remote_code="}
"""Options that make a call run what it is given."""


def nodes(*names: str) -> Iterator[tuple[str, ast.AST]]:
    """The syntax of each file in which all parts of a name stand; another cannot use what has one of these names."""
    for path in SOURCE:
        text = path.read_text()
        words = set(re.findall(r"\w+=?", text))
        if any(words.issuperset(name.split(".")) for name in names):
            for node in ast.walk(ast.parse(text)):
                yield path.relative_to(REPOSITORY).as_posix(), node


def test_nothing_executes_data() -> None:
    """No call runs what it was given, and none is told to trust its data."""
    found = set()
    for path, call in nodes(*EXECUTING, *TRUSTING):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            trusting = any(
                f"{option.arg}=" in TRUSTING and getattr(option.value, "value", None) is True
                for option in call.keywords
            )
            if name in EXECUTING or trusting:
                found.add((path, name))
    assert found == set()


def test_no_pickles_are_read() -> None:
    """No module knows pickles."""
    reading = {
        path
        for path, node in nodes("pickle")
        if isinstance(node, ast.Import) and any(name.name == "pickle" for name in node.names)
    }
    assert reading == set()


def test_nothing_listens() -> None:
    """No module makes a server."""
    servers = ("socketserver", "http.server", "start_server", "create_server")
    listening = {
        path.relative_to(REPOSITORY).as_posix()
        for path in SOURCE
        if any(word in path.read_text() for word in servers)
    }
    assert listening == set()


def test_licenses_of_dependencies() -> None:
    """Each package that the program needs to run has a known license, and one that lets any program use it."""
    found = {name: licenses_of(name) for name in core()}
    assert "textual" in found
    assert {name: names for name, names in found.items() if not names or names - PERMITTED} == {}
