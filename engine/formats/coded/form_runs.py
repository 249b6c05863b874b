"""Runs of form filling as the programs of Hakimov et al. (2024) store them: a folder with files of fixed names.

The conversation is in `transcript.json`, which the mapping file `form_filling` reads. What the other files say is
added: the scores of the final form become truth, the configuration metadata.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.formats.form_scores import Count, fields, form_scores
from engine.formats.json_values import BadRecord, list_or_empty
from engine.formats.records import COMPANIONS, ParsedRecord, Reader

RIGHT = ("required_right", "optional_right")
FORM, CONFIG, DIALOGUE = "filled-form.json", "config.json", "dialogue.json"
_ONLY_ORIGINAL = (DIALOGUE, "info.json", "dm-state.json", "cfm-states.json")
"""States of the modules, and the dialogue, which the transcript repeats; they stay in the original record."""


def with_files(transcripts: Reader) -> Reader:
    """The reader of transcripts that also reads the files beside them."""

    def read(record: Any, fallback_id: str, outer: Any = None) -> ParsedRecord:
        files = record.get(COMPANIONS) if isinstance(record, dict) else None
        if not isinstance(files, dict):
            return transcripts.read(record, fallback_id, outer)
        alone = {name: value for name, value in record.items() if name != COMPANIONS}
        draft = transcripts.read(alone, fallback_id, outer)
        config, form = files.get(CONFIG), files.get(FORM)
        if isinstance(config, dict):
            draft.fields["config"] = config
        try:
            truth = _truth(config, form, files.get(DIALOGUE), record.get("interactions"))
        except (TypeError, RecursionError):
            raise BadRecord(f"{FORM} beside it is no form") from None
        draft.conversation = replace(draft.conversation, truth=truth or None)
        draft.left_out |= {(id(files), name) for name in _ONLY_ORIGINAL}
        return draft

    return replace(transcripts, read=read, companions=frozenset((FORM, CONFIG, *_ONLY_ORIGINAL)))


def _models(config: dict[str, Any]) -> str:
    """Names of the models of the modules, without the user's and those that a fallback replaces (`dummy`)."""
    model = config.get("model")
    of_modules = model.items() if isinstance(model, dict) else [("", model)]
    names = [str(one) for module, one in of_modules if one and module != "user" and one != "dummy"]
    return ", ".join(dict.fromkeys(names)) or "unknown"


def _truth(config: Any, form: Any, dialogue: Any, interactions: Any) -> dict[str, Any]:
    """What is known of a run: its form and, if dialogue and final form are there, its scores."""
    found: dict[str, Any] = {}
    if isinstance(config, dict) and isinstance(config.get("form"), str):
        found |= {
            "form": config["form"],
            "goal": config["form"],
            "assistant_model": _models(config),
        }
        found |= {name: config[name] for name in ("variant", "ended") if name in config}
    if not isinstance(form, dict) or next(fields(form), None) is None:
        return found
    if not isinstance(dialogue, list) or not all(isinstance(line, dict) for line in dialogue):
        return found
    said = [{speaker: str(text) for speaker, text in line.items()} for line in dialogue]
    steps = list_or_empty(interactions)
    modules = [str(one.get("module")) for one in steps if isinstance(one, dict)]
    scores = form_scores(form, said, modules, _right(config))
    return found | scores.truth() | {"filled": form}


def _right(config: Any) -> tuple[Count, Count] | None:
    """What the configuration says of correctly filled fields; None where it says nothing, as in the source's runs."""
    counts = [config.get(name) for name in RIGHT] if isinstance(config, dict) else []
    pairs = [
        (one[0], one[1])
        for one in counts
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, int) for part in one)
    ]
    if len(pairs) != 2 or not all(0 <= part <= total for part, total in pairs):
        return None
    return pairs[0], pairs[1]
