"""`workbench import` says what it read and what not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import ProjectLocked
from engine.formats.opening import source
from engine.formats.registry import mapping_folder
from tests import bombs
from tests.command_line import result
from workbench.cli import main
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, EXIT_USAGE
from workbench.commands import importing

WHOLE = {"id": "a", "messages": [{"role": "user", "content": "Where is my parcel?"}]}
GAP = {
    "id": "b",
    "messages": [{"role": "user", "content": "And mine?"}],
    "choices": [
        {"message": {"role": "assistant", "content": "On its way."}},
        {"message": {"role": "assistant", "content": "It was lost in the harbour."}},
    ],
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A file with one conversation that is read whole and one that is not."""
    path = tmp_path / "logs.jsonl"
    path.write_text("\n".join(map(json.dumps, (WHOLE, GAP))), encoding="utf-8")
    return path


def test_text_that_was_not_read_is_a_warning(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over 2% of text that went nowhere: the text says format, why, shares, path and example; the exit code is 3."""
    assert main(["import", str(tmp_path / "p.wb"), str(logs)]) == EXIT_INCOMPLETE
    out = capsys.readouterr().out
    assert "openai, because the records have `messages` with role and content" in out
    assert "2 conversations, 3 messages" in out
    assert "`choices[].message.content`" in out
    assert "lost in the harbour" in out
    assert "Warning: more than 2% of the text was not read" in out


def test_a_dry_run_shows_and_stores_nothing(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--dry-run` prints the account and two conversations, and makes no project."""
    assert main(["import", str(tmp_path / "p.wb"), str(logs), "--dry-run"]) == EXIT_INCOMPLETE
    out = capsys.readouterr().out
    assert "text read as: " in out
    assert "== a ==\nTURN 1, STEP 1, user chat:\nWhere is my parcel?" in out
    assert not (tmp_path / "p.wb").exists()


def test_a_project_that_another_program_made_meanwhile_stays(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that was not there at first and cannot be opened, as another program has just made it, is kept."""
    project = tmp_path / "p.wb"

    def open_project(path: Path, *, create: bool) -> None:
        path.write_bytes(b"of another program")
        raise ProjectLocked(f"{path} is in use.")

    monkeypatch.setattr(importing, "OpenProject", open_project)
    assert main(["import", str(project), str(logs)]) != EXIT_DONE
    assert project.read_bytes() == b"of another program"


def test_a_refused_import_leaves_no_project(tmp_path: Path) -> None:
    """A file in no known format leaves no project behind, and a project that was there stays."""
    strange, good = tmp_path / "strange.json", tmp_path / "good.json"
    strange.write_text('{"weather": "fine"}', encoding="utf-8")
    good.write_text(json.dumps(WHOLE), encoding="utf-8")
    project = tmp_path / "p.wb"
    assert main(["import", str(project), str(strange)]) != EXIT_DONE
    assert not list(tmp_path.glob("p.wb*"))
    assert main(["import", str(project), str(good)]) == EXIT_DONE
    assert main(["import", str(project), str(strange)]) != EXIT_DONE
    assert project.exists()


@pytest.mark.parametrize(
    "words", [["import", "p.wb"], ["import", "p.wb", "--dry-run"], ["open", "-o", "p.wb"]]
)
def test_a_refusal_names_the_command_that_maps(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file in no known format is refused with the whole command that guesses where its messages are, and with mapping
    files that cannot be used."""
    monkeypatch.chdir(tmp_path)
    Path("my log.json").write_text('{"weather": "fine"}', encoding="utf-8")
    assert main([*words, "my log.json"]) != EXIT_DONE
    assert "workbench import p.wb 'my log.json' --map\n" in capsys.readouterr().err
    mapping_folder().mkdir(parents=True)
    (mapping_folder() / "mine.toml").write_text('name = "mine"\ncalls = "did["\n')
    assert main([*words, "my log.json"]) != EXIT_DONE
    assert "mine.toml cannot be used" in capsys.readouterr().err
    assert not Path("p.wb").exists()


def test_a_named_file_that_is_refused_is_a_gap(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 3 if one of several named files is refused, or is not there; the others are imported."""
    good = tmp_path / "good.jsonl"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    good.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    odd = tmp_path / "odd.json"
    odd.write_text('{"foo": 1}', encoding="utf-8")
    project = str(tmp_path / "p.wb")
    assert main(["import", project, str(good)]) == EXIT_DONE
    for refused in (odd, tmp_path / "absent.jsonl"):
        assert main(["import", project, str(good), str(refused)]) == EXIT_INCOMPLETE
        assert "1 already here" in (out := capsys.readouterr().out)
        assert str(refused) in out


class TestMap:
    """`import --map` guesses where the messages of a file of an unknown format are."""

    @pytest.fixture
    def odd(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A file of no known format, and a configuration folder of its own."""
        monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
        odd = tmp_path / "odd.jsonl"
        with open(odd, "w", encoding="utf-8") as written:
            for number in range(3):
                asked = {"party": "caller", "heard": f"Where is number {number}?"}
                turns = [asked, {"party": "desk", "heard": "In Graz."}]
                written.write(json.dumps({"nr": number, "turns": turns}) + "\n")
        return odd

    def test_a_guess_is_printed_as_a_mapping_file(
        self, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What is printed is a mapping file that the folder of formats takes as it is; nothing is stored."""
        assert main(["import", str(tmp_path / "p.wb"), str(odd), "--map"]) == EXIT_INCOMPLETE
        out = capsys.readouterr().out
        assert "# Read so: 3 conversations, 6 messages" in out
        assert 'each = "turns[]"' in out
        assert not (tmp_path / "p.wb").exists()
        guess = result("import", tmp_path / "p.wb", odd, "--map", code=EXIT_INCOMPLETE)
        assert (guess["conversations"], guess["messages"]) == (3, 6)
        assert guess["mapping"] in out
        assert not (tmp_path / "p.wb").exists()
        formats = tmp_path / "config" / "formats"
        assert not formats.exists()
        formats.mkdir(parents=True)
        (formats / "odd.toml").write_text(out)
        assert main(["import", str(tmp_path / "p.wb"), str(odd), "--format", "odd"]) == EXIT_DONE

    def test_it_is_about_one_file(self, odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Several paths and a chosen format are refused; a folder and standard input cannot be opened."""
        for words in ([str(odd), str(odd)], [str(odd), "--format", "openai"]):
            assert main(["import", "p.wb", *words, "--map"]) == EXIT_USAGE
            assert "the format of one file" in capsys.readouterr().err
        for path in (str(odd.parent), "-"):
            assert main(["import", "p.wb", path, "--map"]) != EXIT_DONE
            assert f"{path} cannot be opened" in capsys.readouterr().err


def test_the_limit_on_unpacking_is_told_and_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file that unpacks to too much the beginning is read and the option is named; with it the same file is read
    whole."""
    monkeypatch.setattr(source, "FREELY_UNPACKED", 4 * bombs.MIB)
    path, project = tmp_path / "a.jsonl.xz", tmp_path / "p.wb"
    with bombs.OPENERS["xz"](path) as file:
        for number in range(3):
            said = bombs.record(number, "a" * 3 * bombs.MIB)
            file.write(json.dumps(said).encode() + b"\n")

    def imported(*options: str) -> tuple[int, list[int], str]:
        code = main(["import", *options, str(project), str(path), "--json"])
        (source,) = json.loads(capsys.readouterr().out)["sources"]
        return code, [source["conversations"], source["quarantined"]], str(source["reasons"])

    code, counts, reasons = imported()
    assert (code, counts) == (EXIT_INCOMPLETE, [1, 1])
    assert "--most-unpacked" in reasons
    assert imported("--most-unpacked", ".02")[:2] == (EXIT_DONE, [3, 0])
