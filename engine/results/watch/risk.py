"""A probe for conversations that still run: whether a person will call them incomplete.

It learns from past conversations with a verdict, from their hidden states at the boundaries before the last, each with
the verdict on the whole. It is fitted as the probe of ends is (`engine.completeness.probe`), with these labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.completeness import probe
from engine.completeness.probe import Ints, States
from engine.completeness.tables.hidden_states import StateEntry
from engine.questions.records.example_probes import LEAST_OF_EACH


def fit_risk(
    past: Sequence[StateEntry], said: Mapping[int, bool], group: Ints
) -> tuple[probe.Probe | None, dict[int, list[float]]]:
    """Fits the probe.

    Args:
        said: Whether a person called a conversation complete, by its id.
        group: The group of each past conversation, the same for nearly equal ones.

    Returns:
        The probe, and the probability that it ends incomplete at each boundary before the last of each conversation
        that it learned from, by probes that never saw it. None and nothing with fewer than `LEAST_OF_EACH` verdicts
        of either kind.
    """
    judged = [
        (one, number)
        for one, number in zip(past, group.tolist(), strict=True)
        if one.conversation_id in said and len(one.places) > 1
    ]
    incomplete = np.array([not said[one.conversation_id] for one, _ in judged], dtype=bool)
    if min(incomplete.sum(), (~incomplete).sum()) < LEAST_OF_EACH:
        return None, {}
    counts = [len(one.places) - 1 for one, _ in judged]
    states = np.concatenate([states_of(one)[:-1] for one, _ in judged])
    label = np.repeat(incomplete, counts)
    groups = np.repeat([number for _, number in judged], counts)
    try:
        found = probe.cross_fit(states, label, groups)
        fitted = probe.fit(states, label, groups)
    except ValueError:  # nearly all of them are copies of each other
        return None, {}
    values = np.split(found.p, np.cumsum(counts)[:-1])
    ids = [one.conversation_id for one, _ in judged]
    return fitted, {key: value.tolist() for key, value in zip(ids, values, strict=True)}


def states_of(entry: StateEntry) -> States:
    """The hidden states of a conversation, shape (boundaries, dimensions)."""
    raw = np.frombuffer(entry.states, dtype="<f2").reshape(len(entry.places), -1)
    return raw.astype(np.float32)
