"""The doctor's network check: the guard, what may be reached, and the offline switches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base import folders, network_guard
from engine.model.http.capabilities import Capabilities
from engine.model.http.endpoint_book import EndpointBook, EndpointEntry
from engine.project.network import NetworkService
from engine.project.project import Project
from workbench.doctor import (
    Check,
    network_checks,
)


def network(data: Path, project: Path | None = None) -> Check:
    """The check `network`."""
    (found,) = [check for check in network_checks(data, project) if check.name == "network"]
    return found


def add_endpoint(data: Path, name: str, url: str) -> None:
    """Writes an endpoint into the list without probing it."""
    entry = EndpointEntry(name, url, Capabilities())
    file = EndpointBook(data).file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: entry.as_params()}), "utf-8")


class TestWhatMayBeReached:
    def test_the_hub_and_endpoints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hub and endpoints are listed by host, with how to refuse them; nothing else of a URL is printed."""
        add_endpoint(tmp_path, "lab", "https://lab.example:8443/v1?token=canary#model")
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.example/mirror")
        found = network(tmp_path)
        assert found.status == "ok"
        assert "hub.example (the hub), lab.example:8443 (endpoint lab)" in found.found
        assert "--offline" in found.found
        assert "canary" not in found.found

    def test_switches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every offline switch that is on is named, also a project's, which is in force only while the project
        is open.
        """
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            own = NetworkService(project)
            own.stay_offline(True)
            own.close()
        assert "no network is used: this project's setting is on" in network(tmp_path, path).found
        monkeypatch.setenv(network_guard.VARIABLE, "1")
        found = network(tmp_path, path).found
        assert "the variable WORKBENCH_OFFLINE and this project's setting are on" in found
        assert "huggingface.co" in found

    def test_lists_that_cannot_be_read(self, tmp_path: Path) -> None:
        """A damaged list is reported, and the doctor continues."""
        (tmp_path / "endpoints.json").write_text("{", "utf-8")
        found = network(tmp_path, tmp_path / "no-project.wb")
        assert found.status == "warn"
        assert "cannot be determined" in found.found


def test_the_guard() -> None:
    """In the command the guard is on; without the program around it the check is bad."""
    told = subprocess.run(
        [sys.executable, "-m", "workbench", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    checks = {check["name"]: check for check in json.loads(told.stdout)["checks"]}
    assert checks["guard"]["status"] == "ok"
    code = (
        "import pathlib, sys; from workbench.network_checks import network_checks;"
        "print(*[check.status for check in network_checks(pathlib.Path(sys.argv[1]))])"
    )
    bare = subprocess.run(
        [sys.executable, "-c", code, str(folders.data_dir())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert bare.stdout == "bad ok\n"
