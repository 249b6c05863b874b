"""Stored runs of form filling: a folder of files with fixed names, of which one holds the conversation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from engine.formats.inputs import open_inputs
from engine.formats.records import Input, Parsed, Rejected
from engine.simulate.forms.form import Profile
from tests.engine.simulate.forms.playing import Script, answer_by_label, as_reply, files_of, played
from tests.shared_data import original_folder


def parsed(inputs: list[Input]) -> tuple[list[Parsed], list[Rejected]]:
    """What was read of the inputs, and what was refused."""
    records = [record for one in inputs for record in one.records()]
    return (
        [one for one in records if isinstance(one, Parsed)],
        [one for one in records if isinstance(one, Rejected)],
    )


def test_what_a_simulation_writes_is_read_with_its_scores(tmp_path: Path) -> None:
    """The files of a run are one conversation with its scores as truth, in a folder and in an archive."""
    over = played(Script({"user": as_reply({"answer": "Ulm"})}))
    for name, value in files_of(over).items():
        path = tmp_path / "runs" / "small" / "1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "runs")
    for source in (str(tmp_path / "runs"), archive):
        (found,), refused = parsed(list(open_inputs([source])))
        truth, result = found.conversation.truth or {}, over.ending.result
        assert refused == []
        said = [text for line in result["dialogue"] for text in line.values()]
        assert [one.content for one in found.conversation.messages] == said
        names = ("filled_share", "efficiency", "filled_score", "complete")
        assert {name: truth[name] for name in names} == {name: result[name] for name in names}
        assert truth.keys().isdisjoint(("success", "score"))
        assert (truth["form"], truth["filled"]) == (result["form"], result["filled"])


def test_what_is_right_is_read_back(tmp_path: Path) -> None:
    """Files of a run by one person, whose answers are known, give the Success of the run."""
    known = {"Name": {"First": "Anna", "Middle": ""}, "Town": "Ulm", "Colour": "blue", "Remark": ""}
    anna = Profile("anna", "a weaver", {"small": known})
    over = played(Script({"user": answer_by_label}), profiles=(anna,), profile="run")
    for name, value in files_of(over).items():
        (tmp_path / name).write_text(json.dumps(value))
    (found,), refused = parsed(list(open_inputs([tmp_path])))
    truth, result = found.conversation.truth or {}, over.ending.result
    assert refused == []
    assert result["success"] is not None
    names = ("filled_share", "success", "score", "required_right")
    assert [truth[name] for name in names] == [result[name] for name in names]
    assert truth["reward"] == result["score"]


def test_a_transcript_alone_has_no_scores(tmp_path: Path) -> None:
    """Without the final form nothing is known of a run but what was said."""
    over = played(Script({"user": as_reply({"answer": "Ulm"})}))
    path = tmp_path / "transcript.json"
    path.write_text(json.dumps(files_of(over)["transcript.json"]))
    (found,), refused = parsed(list(open_inputs([path])))
    assert (found.conversation.truth, refused) == (None, [])


def test_a_damaged_form_is_told(tmp_path: Path) -> None:
    """A run whose final form is none is refused with the reason, not read without its scores."""
    over = played(Script({"user": as_reply({"answer": "Ulm"})}))
    for name, value in files_of(over).items():
        damaged = {"Town": {"answer": None, "options": 5}}
        (tmp_path / name).write_text(json.dumps(damaged if name == "filled-form.json" else value))
    found, (refused,) = parsed(list(open_inputs([tmp_path])))
    assert (found, refused.reason) == ([], "filled-form.json beside it is no form")


def test_files_with_these_names_are_their_own_without_a_transcript(tmp_path: Path) -> None:
    """A `dialogue.json` that no run lies beside is read as what it is."""
    lines = [{"Assistant": "Where?"}, {"User": "Ulm"}]
    (tmp_path / "dialogue.json").write_text(json.dumps(lines))
    (found,), _ = parsed(list(open_inputs([tmp_path])))
    assert [one.content for one in found.conversation.messages] == ["Where?", "Ulm"]


if (folder := original_folder("formfill")) is not None:

    def test_stored_runs_of_the_source_are_read() -> None:
        """Both runs come with their scores, and nothing of them is refused."""
        assert folder is not None
        found, refused = parsed(list(open_inputs([folder / "result_store"])))
        assert refused == []
        scores = [
            {name: (one.conversation.truth or {}).get(name) for name in ("form", "complete")}
            for one in found
        ]
        assert scores == [{"form": "disc", "complete": True}, {"form": "epa", "complete": True}]
