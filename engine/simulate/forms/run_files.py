"""Writes a run as the result files of Hakimov et al. (2024), so that their evaluation script can read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.simulate.forms.modules import MODULES

BY_FALLBACK = "used fallback mechanism"
"""Replaces the prompt in a transcript when a fallback replied."""


def run_files(
    result: Mapping[str, Any],
    prompts: Sequence[str],
    rules: Mapping[str, Any],
    models: Mapping[str, str],
) -> dict[str, str]:
    """Returns the files of a run by name, as JSON texts.

    Args:
        result: `Ending.result` of the play.
        prompts: The last message of each call of the play, in order.
        rules: The fields of `Rules`.
        models: Label of the model of each role.

    Returns:
        `config.json`, `dialogue.json`, `filled-form.json` and `transcript.json`; for a modular run also `info.json`,
        `dm-state.json` and `cfm-states.json`.
    """
    files: dict[str, Any] = {
        "config.json": _config(result, rules, models),
        "dialogue.json": result["dialogue"],
        "filled-form.json": result["filled"],
        "transcript.json": {
            "interactions": [_entry(one, prompts) for one in result["interactions"]]
        },
    }
    if "chunks" in result:
        files["info.json"] = result["information"]
        files["dm-state.json"] = result["manager"]
        files["cfm-states.json"] = result["chunks"]
    return {name: json.dumps(value, ensure_ascii=False) for name, value in files.items()}


def _entry(one: Mapping[str, Any], prompts: Sequence[str]) -> dict[str, Any]:
    prompt = one.get("prompt")
    if prompt is None:
        prompt = BY_FALLBACK if one["call"] is None else prompts[one["call"]]
    return {"module": one["module"], "prompt": prompt, "output": one["output"]}


def _config(
    result: Mapping[str, Any], rules: Mapping[str, Any], models: Mapping[str, str]
) -> dict[str, Any]:
    label = models.get("assistant", "")
    modules = {
        one.name: "dummy" if one.name in rules["dummies"] else label
        for one in MODULES
        if "chunks" in result
    }
    return {
        "model": {**modules, "user": models.get("user", "")} if modules else label,
        "form": result["form"],
        "grouping_size": rules["grouping_size"],
        "temperature": rules["temperature"],
        "base temp": rules["temperature"],
        "high temp": rules["high"],
        "autouser": bool(models.get("user")),
        "variant": result["variant"]
        if rules.get("schemas", True)
        else f"{result['variant']}, free",
        "run": result["run"],
        "ended": result["ended"],
        "required_right": result["required_right"],
        "optional_right": result["optional_right"],
    }
