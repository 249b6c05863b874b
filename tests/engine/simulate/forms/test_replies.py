"""Checking a returned section, and the schemas of replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.simulate.forms.form_session import fits_section, section_schema
from tests.engine.simulate.forms.playing import leaf, small_form


def answered(**changes: Any) -> dict[str, Any]:
    return {"Town": {**leaf(), "answer": "Ulm", **changes}}


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (answered(), True),
        ({"Town": {"answer": "Ulm"}}, True),
        ({"Town": {"answer": ["Ulm", "Bern"]}}, True),
        ({"City": {"answer": "Ulm"}}, False),
        ({"Town": {"answer": {"city": "Ulm"}}}, False),
        (answered(hint="a city"), False),
    ],
)
def test_a_section_comes_back_with_its_labels_and_kinds(given: Any, fits: bool) -> None:
    """A section with an unknown label or key, or a value of another type, is refused; missing keys are allowed."""
    assert fits_section(given, small_form().blank()) is fits


def test_a_section_schema_asks_for_answers_within_options() -> None:
    """The schema of a field with options allows one of them or nothing, of several a list; an optional field may be
    empty.
    """
    content = {
        "One": leaf(options=["a", "b"]),
        "Some": leaf(options=["a", "b"], type="multi-choice"),
        "Free": leaf(required=False),
    }
    schema = json.loads(section_schema(content))
    answers = {label: node["properties"]["answer"] for label, node in schema["properties"].items()}
    assert answers["One"] == {"enum": ["a", "b", None]}
    assert answers["Some"]["anyOf"][0]["items"] == {"enum": ["a", "b"]}
    assert answers["Free"]["anyOf"][1] == {"enum": [None, ""]}
    assert schema["required"] == ["One", "Some", "Free"]
