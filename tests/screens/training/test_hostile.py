"""Names, logs and samples of training runs are data: nothing in them acts on the terminal."""

from __future__ import annotations

from dataclasses import replace

from screens.training import formatting
from tests.screens.test_hostile_text import CONTROL
from tests.screens.training.driving import FAILED, trained
from tests.terminal.payloads import PAYLOADS

PAYLOAD = " ".join(PAYLOADS.values())


def test_texts_of_a_run_are_written_safely() -> None:
    """Every text about a run is free of control characters, whatever its name, samples, warnings and log are."""
    known = trained(used=None).training.detail(FAILED)
    run = replace(
        known.run, name=PAYLOAD, recipe=PAYLOAD, base=PAYLOAD, problem=PAYLOAD, hint=PAYLOAD, state="failed"
    )  # fmt: skip
    detail = replace(
        known,
        run=run,
        samples=tuple(replace(sample, text=PAYLOAD, generated=PAYLOAD) for sample in known.samples),
        warnings=(PAYLOAD,),
        last_lines=(PAYLOAD,),
    )
    texts = [
        formatting.headline(run, None),
        formatting.problem_content(run),
        formatting.about_content(detail, 80),
        formatting.tail_content(detail),
        formatting.summary_content([run], False, PAYLOAD, PAYLOAD),
        formatting.ending_text(run),
    ]
    for content in texts:
        assert not CONTROL.search(str(content).replace("\n", ""))
