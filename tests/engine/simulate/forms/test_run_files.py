"""Run files in the source's format, and tables as in its paper."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from engine.formats.form_runs import form_scores
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.table import table_of
from engine.simulate.play import EndedPlay
from engine.simulate.service.forms import run_files
from tests.engine.simulate.forms.playing import EVERY_DUMMY, Script, as_reply, played, prompt_of
from tests.shared_data import original_folder

USER = as_reply({"answer": "Ulm"})


def files_of(over: EndedPlay, dummies: frozenset[str] = EVERY_DUMMY) -> dict[str, Any]:
    prompts = [prompt_of(line.call) for line in over.transcript]
    rules = {**asdict(Rules()), "dummies": sorted(dummies)}
    models = {"assistant": "small-model", "user": "other-model"}
    texts = run_files(over.ending.result, prompts, rules, models)
    return {name: json.loads(text) for name, text in texts.items()}


def test_a_run_is_written_as_its_source_stores_one() -> None:
    """The scores computed from the written files equal those of the run."""
    over = played(Script({"user": USER}))
    files = files_of(over)
    result = over.ending.result
    modules = [one["module"] for one in files["transcript.json"]["interactions"]]
    scores = form_scores(files["filled-form.json"], files["dialogue.json"], modules)
    assert {name: result[name] for name in asdict(scores)} == asdict(scores)


def test_a_transcript_says_what_was_asked() -> None:
    """A reply is written with its prompt, a user's reply with the question, a fallback marked as such."""
    dummies = EVERY_DUMMY - {"answer_parsing"}
    parse = as_reply({"next action": "information_extraction"})
    files = files_of(played(Script({"user": USER, "answer_parsing": parse}), dummies=dummies))
    entries = {one["module"]: one for one in files["transcript.json"]["interactions"]}
    assert "INFORMATION TO EXTRACT" in entries["answer_parsing"]["prompt"]
    assert entries["user"]["output"] == "Ulm"
    assert not entries["user"]["prompt"].startswith("Imagine")
    assert entries["form_filling"]["prompt"] == "used fallback mechanism"


def test_a_baseline_has_no_states() -> None:
    """The files of modules are not written for a baseline."""
    script = Script(
        {
            "user": USER,
            "question_generation": as_reply({"question": "Where?"}),
            "next_action": as_reply({"next action": "stop"}),
        }
    )
    files = files_of(played(script, variant="baseline"))
    assert sorted(files) == [
        "config.json",
        "dialogue.json",
        "filled-form.json",
        "transcript.json",
    ]


if (folder := original_folder("formfill")) is not None:

    def test_files_have_the_names_and_shapes_of_the_stored_ones() -> None:
        """The files, their top-level keys and the keys of their entries are those of the stored runs."""
        assert folder is not None
        stored = folder / "result_store" / "gpt" / "disc" / "2"
        theirs = {path.name: json.loads(path.read_text("utf-8")) for path in stored.iterdir()}
        ours = files_of(played(Script({"user": USER})))
        assert ours.keys() == theirs.keys()
        assert {"model", "form", "grouping_size", "temperature", "high temp"} <= ours[
            "config.json"
        ].keys()
        assert ours["config.json"]["model"].keys() - theirs["config.json"]["model"].keys() == {
            "Dialogue Manager"
        }
        assert ours["dm-state.json"].keys() == theirs["dm-state.json"].keys()
        state = next(iter(theirs["cfm-states.json"].values()))
        assert next(iter(ours["cfm-states.json"].values())).keys() == state.keys()
        named = {one["module"] for one in ours["transcript.json"]["interactions"]}
        assert named <= {one["module"] for one in theirs["transcript.json"]["interactions"]}


def result(form: str, variant: str, **changes: Any) -> dict[str, Any]:
    return {
        "form": form, "variant": variant, "length": 5, "required": (3, 3), "optional": (0, 2), "turns": 4,
        "repetitions": 0, "complete": True, "right": None,
        "ended": "stop", "interactions": [{}] * 4, "fallbacks": {},
    } | changes  # fmt: skip


def test_a_table_has_means_by_form_and_variant_in_the_order_of_the_paper() -> None:
    """Rows are in the paper's order, own forms last; figures are means over runs."""
    rows = table_of(
        [
            result("mine", "baseline"),
            result("epa", "baseline"),
            result("epa", "modular", turns=8, fallbacks={"user": 1}, ended="turns", complete=False),
            result("epa", "modular", right=(3, 4), required_right=(3, 4), optional_right=(0, 0)),
            result("ss5", "modular", right=(1, 4)),
        ]
    )
    assert [(row.form, row.variant, row.runs) for row in rows] == [
        ("ss5", "modular", 1),
        ("epa", "modular", 2),
        ("epa", "baseline", 1),
        ("mine", "baseline", 1),
    ]
    epa = rows[1]
    assert (epa.complete, epa.right, epa.fallbacks) == (1, (3, 4), 0.125)
    assert (epa.turns, epa.success) == (6, 0.75)
    assert epa.filled_share == pytest.approx(1 / 1.2)
    assert epa.efficiency == pytest.approx((5 / 8 + 5 / 16) / 2)
    assert rows[0].success is None
    assert epa.ended == {"stop": 1, "turns": 1}
    assert (epa.required, epa.optional) == (1.0, 0.0)


def test_a_form_without_optional_fields_has_no_share_of_them() -> None:
    """A share of optional fields is None where there are none."""
    (row,) = table_of([result("mine", "modular", optional=(0, 0))])
    assert row.optional is None
