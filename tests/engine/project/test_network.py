"""A project that stays offline: its setting, in force while it is open, and the command that changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import network_guard
from engine.base.errors import NetworkRefused
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from tests.command_line import data, process, workbench


def refused() -> str:
    """Why an endpoint is refused; empty where it is allowed."""
    try:
        with network_guard.reaching("192.0.2.1", 80):
            return ""
    except NetworkRefused as error:
        return str(error)


class TestTheSetting:
    def test_holds_while_the_project_is_open(self, tmp_path: Path) -> None:
        """The setting is in force at once, stored for the next session, and ends when the project is closed."""
        path = tmp_path / "my project.wb"
        with OpenProject(path, create=True) as workspace:
            assert refused() == ""
            workspace.network.stay_offline(True)
            assert "this project's setting" in refused()
            assert f"`workbench offline '{path}' off` changes it." in refused()
        assert refused() == ""
        with OpenProject(path) as workspace:
            assert workspace.network.stays_offline()
            assert refused()
            workspace.network.stay_offline(False)
            assert refused() == ""


class TestTheCommands:
    def test_say_and_change(self, tmp_path: Path) -> None:
        """`workbench offline` reports and changes the setting; `--offline` works before and after the command."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True):
            pass
        assert b"network only for endpoints" in workbench("offline", path).stdout
        assert b"uses no network" in workbench("offline", path, "on").stdout
        for words in (("--offline", "offline", path), ("offline", path, "--offline")):
            said = data(workbench(*words, "--json"))
            assert said == {"offline": True, "others": ["`--offline`"]}
        assert b"network only for endpoints" in workbench("offline", path, "off").stdout

    @pytest.mark.parametrize("before", [True, False])
    def test_an_endpoint_is_not_asked(self, tmp_path: Path, before: bool) -> None:
        """With `--offline`, or in a project that stays offline, a run that needs an endpoint fails and names the
        switch."""
        path = tmp_path / "p.wb"
        samples = workbench("demo", tmp_path, "--samples-only", "--count", "11", "--headless")
        assert samples.returncode == 0, samples.stderr
        path = tmp_path / "demo.wb"
        run = ("run", "cluster", path, "--no-labels", "--embedder", "http://192.0.2.1/v1#m")
        if before:
            failed = process("--offline", *run)
        else:
            workbench("offline", path, "on")
            failed = process(*run)
        assert failed.returncode == 1
        assert "192.0.2.1:80 is not reached, because" in failed.stderr.decode()
        hint = "without `--offline`" if before else f"`workbench offline {path} off`"
        assert hint in failed.stderr.decode()
