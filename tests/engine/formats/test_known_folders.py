"""What a folder of a known program holds is told by the names of its files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine.formats.file_names import folder_in_words

SESSION = "00000000-0000-4000-8000-00000000000"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([f"-w/{SESSION}{n}.jsonl" for n in range(2)] + [f"-v/{SESSION}3.jsonl"],
         "3 sessions of 2 projects of Claude Code"),
        ([f"-w/{SESSION}1.jsonl", f"-w/{SESSION}1/subagents/agent-a1.jsonl"],
         "1 session of 1 project of Claude Code"),
        (["sessions/2026/01/02/rollout-1.jsonl", "a/b/state.vscdb"],
         "1 session of 1 day of Codex, 1 workspace of Cursor"),
        (["conversations.json", "user.json"], "1 file of an export of ChatGPT, Claude or the like"),
        (["a.jsonl", "notes.txt"], ""),
    ],
)  # fmt: skip
def test_what_a_folder_holds(names: list[str], words: str, tmp_path: Path) -> None:
    """Sessions are counted with what they belong to, in a folder and in a zip archive; sub-agents are no sessions."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in names:
            path = tmp_path / "all" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            archive.writestr(name, "")
    assert folder_in_words(str(tmp_path / "all")) == words
    assert folder_in_words(str(tmp_path / "all.zip")) == words


def test_a_folder_of_sessions_itself(tmp_path: Path) -> None:
    """The folder of one project may be named, too."""
    (tmp_path / f"{SESSION}1.jsonl").touch()
    assert folder_in_words(str(tmp_path)) == "1 session of 1 project of Claude Code"
