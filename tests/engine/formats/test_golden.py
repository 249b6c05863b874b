"""Each format is normalized to its golden file.

`python -m tests.engine.formats.test_golden NAME ...` writes the golden file of a format from its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from engine.formats.inputs import open_inputs
from engine.formats.registry import built_in_readers
from tests.engine.formats.reading import as_json

GOLDEN = Path(__file__).parent / "golden"
INPUTS = sorted(GOLDEN.glob("*.input.*"))


def normalized(path: Path) -> str:
    """Returns what an input is read as, in the form of the golden files; its format must be the one it is named for."""
    (opened,) = open_inputs([path])
    records = [as_json(record) for record in opened.records()]
    assert opened.detection.format == path.name.split(".")[0]
    found = {"why": opened.detection.why, "records": records}
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_native_records_become_the_expected_conversations(path: Path) -> None:
    """A file in its native form is recognized, and gives, record by record, the conversations and leaks of the golden
    file."""
    expected = GOLDEN / f"{path.name.split('.')[0]}.expected.json"
    assert normalized(path) == expected.read_text(encoding="utf-8")


def test_every_format_has_a_golden_file() -> None:
    """Every format has an example with its normalized form."""
    assert {path.name.split(".")[0] for path in INPUTS} == {
        reader.name for reader in built_in_readers()
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (one,) = GOLDEN.glob(f"{name}.input.*")
        (GOLDEN / f"{name}.expected.json").write_text(normalized(one), encoding="utf-8")
