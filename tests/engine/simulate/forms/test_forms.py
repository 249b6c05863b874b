"""The forms of the program, and forms from files."""

from __future__ import annotations

import json

import pytest

from engine.base.errors import UsageError
from engine.simulate.forms.form import TOPICS, copy_answers, form_of_file, known_form, read_form
from engine.simulate.forms.form_scores import fields_of_form
from tests.engine.simulate.forms.playing import small_form
from tests.shared_data import original_folder

COUNTS = {"ss5": (39, 23), "epa": (16, 13), "med": (52, 46), "inv": (14, 13)}


@pytest.mark.parametrize("name", TOPICS)
def test_forms_of_the_paper_have_its_numbers_of_fields(name: str) -> None:
    """Each shipped form has the numbers of fields and required fields that Hakimov et al. report."""
    found = list(fields_of_form(known_form(name).content))
    assert (len(found), sum(one.required for one in found)) == COUNTS[name]


if (folder := original_folder("formfill")) is not None:

    @pytest.mark.parametrize("name", TOPICS)
    def test_blank_forms_of_the_source_are_read_with_the_same_counts(name: str) -> None:
        """A form in the source's file has as many fields, required fields and fields with options as the
        shipped one.
        """
        assert folder is not None
        text = (folder / "resources" / f"{name}.json").read_text("utf-8")
        theirs = list(fields_of_form(read_form("theirs", "", json.loads(text)).content))
        ours = list(fields_of_form(known_form(name).content))
        assert [one.required for one in theirs] == [one.required for one in ours]
        assert [len(one.options) for one in theirs] == [len(one.options) for one in ours]
        assert [len(one.path) for one in theirs] == [len(one.path) for one in ours]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ('{"Name": 3}', "Name is no object"),
        ('{"Who": {"info": "of you"}}', "has no field"),
        ('{"Name": {"answer": null, "required": "yes"}}', "Name: `required`"),
        ('{"Name": {"answer": null, "options": "yes"}}', "Name: `options`"),
        ('{"a": ' * 30 + "1" + "}" * 30, "lies too deep"),
    ],
)
def test_what_is_no_form_is_refused_with_the_place(text: str, said: str) -> None:
    """An invalid form is refused with the label at which it is invalid."""
    with pytest.raises(UsageError, match=said):
        form_of_file("f.json", text)


def test_answers_are_copied_label_by_label() -> None:
    """An answer is copied to its own label; null and unknown labels change nothing."""
    content = small_form().blank()
    content["Town"]["answer"] = "Ulm"
    given = {
        "Name": {"First": {"answer": "Anna"}},
        "Town": {"answer": None},
        "Pet": {"answer": "x"},
    }
    copy_answers(given, content)
    answers = {one.path: one.answer for one in fields_of_form(content) if one.answer is not None}
    assert answers == {("Name", "First"): "Anna", ("Town",): "Ulm"}
