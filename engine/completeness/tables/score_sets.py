"""Sets of scores: how each was made, which one is in force, and which is partial.

A set is the scores of all conversations that were made in one way. A `ScoreConfig` says in which way, and its config
hash is the key of the set. The set in force is the one that is shown.
"""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from engine.completeness.records import DecisionRule, EndingTest, Mode, ProbeFeatures, ScoreSet
from engine.project import settings
from engine.project.sql import to_json

RULE_SETTING = "rule"
"""Setting: the decision rule of the set in force: `threshold`, `band`, `source` (`workbench calibrate`)."""

OTHER_RULES_SETTING = "rules"
"""Setting: the decision rules of sets of scores that are not in force, by config hash."""

IN_FORCE_SETTING = "score_config"
"""Setting: the config hash of the set in force (`workbench scores`)."""

PARTIAL_SETTING = "partial_scores"
"""Setting: the config hash of a set made when the model had read only some conversations; later sets replace it."""

UNFINISHED_SETTING = "unfinished_scores"
"""Setting: the config hash of a set of which only some scores are stored; it is shown nowhere until it has all."""

_COLUMNS = (
    "g.config_hash, g.mode, g.model, g.adapter, g.noise, g.test, g.features, g.scored, g.read"
)
"""The columns of a row `g` of `score_config`, in the order of `ScoreConfig`."""


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """How a set of scores was made.

    Attributes:
        config_hash: Hash of all that determines the scores; the set is known by it.
        mode: How the scores were made.
        model: Name of the model.
        adapter: Name of its adapter; None without one.
        noise: Largest change of a probability seen on the model when the batch size changes; None if not measured.
            Of a probe: mean spread of the scores between repeats of the fit.
        test: Out-of-fold test of a probe; None for other modes, and where no conversation can be cut.
        features: What a probe reads; None for other modes.
        scored, read: Number of conversations with a score by a probe, and of those with one by states too; None for
            other modes.
    """

    config_hash: str
    mode: Mode
    model: str
    adapter: str | None = None
    noise: float | None = None
    test: EndingTest | None = None
    features: ProbeFeatures | None = None
    scored: int | None = None
    read: int | None = None


# Making a set


def register(conn: sqlite3.Connection, config: ScoreConfig) -> None:
    """Stores how a set is made, before its first scores are stored.

    If the set is known already, only a newly measured noise is stored.
    """
    conn.execute(
        "INSERT INTO score_config (config_hash, mode, model, adapter, noise, test, features)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (config_hash) DO UPDATE SET noise = coalesce(excluded.noise, noise)",
        (
            config.config_hash,
            config.mode,
            config.model,
            config.adapter,
            config.noise,
            None if config.test is None else to_json(asdict(config.test)),
            config.features,
        ),
    )


def begin_set(conn: sqlite3.Connection, config: ScoreConfig) -> None:
    """Registers a set whose scores take several transactions, and deletes one that was begun and never finished.

    The set stays hidden until `finish_set`.
    """
    unfinished = settings.get(conn, UNFINISHED_SETTING)
    if unfinished is not None:
        drop(conn, unfinished)
    register(conn, config)
    settings.put(conn, UNFINISHED_SETTING, config.config_hash)


def finish_set(conn: sqlite3.Connection, scored: int, read: int) -> None:
    """Shows the set that was begun, with the numbers of conversations as in `ScoreConfig`."""
    conn.execute(
        "UPDATE score_config SET scored = ?, read = ? WHERE config_hash = ?",
        (scored, read, settings.get(conn, UNFINISHED_SETTING)),
    )
    settings.put(conn, UNFINISHED_SETTING, None)


def put_word_weights(conn: sqlite3.Connection, config_hash: str, packed: bytes) -> None:
    """Stores the weights of words behind a registered set, as `WordWeights.packed` writes them."""
    conn.execute(
        "INSERT INTO word_weights (config_hash, weights) VALUES (?, ?)", (config_hash, packed)
    )


# Reading sets


def sets(conn: sqlite3.Connection) -> list[ScoreSet]:
    """Returns all sets of scores, in the order in which they were first made."""
    shown_hash = hash_in_force(conn)
    return [
        ScoreSet(
            number=number,
            config_hash=config.config_hash,
            mode=config.mode,
            model=config.model,
            adapter=config.adapter,
            scored=_count_scores(conn, config.config_hash),
            test=config.test,
            in_force=config.config_hash == shown_hash,
            features=config.features,
            read=config.read,
        )
        for number, config in enumerate(configs(conn), 1)
    ]


def configs(conn: sqlite3.Connection) -> list[ScoreConfig]:
    """Returns how each set was made, in the order in which they were first made; an unfinished set is left out."""
    rows = conn.execute(
        f"SELECT {_COLUMNS} FROM score_config AS g"
        " LEFT JOIN (SELECT config_hash, min(id) AS first FROM run GROUP BY config_hash)"
        " USING (config_hash) WHERE EXISTS (SELECT 1 FROM score WHERE config_hash = g.config_hash)"
        # A fit that is a part of a run has no run of its own hash, but the scores name the run.
        " AND config_hash IS NOT ? ORDER BY coalesce(first,"
        " (SELECT run_id FROM score WHERE config_hash = g.config_hash LIMIT 1)), config_hash",
        (settings.get(conn, UNFINISHED_SETTING),),
    )
    return [_config(row) for row in rows]


def registered_config(conn: sqlite3.Connection, config_hash: str) -> ScoreConfig | None:
    """Returns how a registered set is made, whether it has scores or not; None if it is not registered."""
    row = conn.execute(
        f"SELECT {_COLUMNS} FROM score_config AS g WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return None if row is None else _config(row)


def is_stored(conn: sqlite3.Connection, config_hash: str) -> bool:
    """Returns whether a set has scores; of one that was begun with `begin_set`, whether it has them all."""
    if config_hash == settings.get(conn, UNFINISHED_SETTING):
        return False
    row = conn.execute("SELECT 1 FROM score WHERE config_hash = ? LIMIT 1", (config_hash,))
    return row.fetchone() is not None


def _config(row: tuple[Any, ...]) -> ScoreConfig:
    """Returns the `ScoreConfig` in a row: the columns of `ScoreConfig`, in its order, the test as JSON or None."""
    config_hash, mode, model, adapter, noise, test, *more = row
    ending_test = None if test is None else msgspec.json.decode(test, type=EndingTest)
    return ScoreConfig(config_hash, mode, model, adapter, noise, ending_test, *more)


def _count_scores(conn: sqlite3.Connection, config_hash: str, *, with_reasons: bool = False) -> int:
    """Returns the number of conversations with a score; `with_reasons` counts those with a reason for none too."""
    counted = "" if with_reasons else " AND p_end_normalised IS NOT NULL"
    query = f"SELECT count(*) FROM score WHERE config_hash = ?{counted}"
    return int(conn.execute(query, (config_hash,)).fetchone()[0])


# The set in force


def hash_in_force(conn: sqlite3.Connection) -> str | None:
    """Returns the config hash of the set in force; None before any scoring."""
    value: str | None = settings.get(conn, IN_FORCE_SETTING)
    return value


def config_in_force(conn: sqlite3.Connection) -> ScoreConfig | None:
    """Returns how the set in force was made; None before any scoring."""
    config_hash = hash_in_force(conn)
    return None if config_hash is None else registered_config(conn, config_hash)


def put_in_force_if_due(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts a registered set in force where no other set with scores is, or where it replaces that one by itself.

    It replaces an older set of its kind (mode, features, model and adapter), and one by words alone if it is by words
    and states, once it covers as many conversations. Other sets are replaced only when a person chooses:
    `switch_with_rules`.
    """
    current, new = config_in_force(conn), registered_config(conn, config_hash)
    if new is None:
        return
    if current is not None and is_stored(conn, current.config_hash):
        refines = current.features == "words" and new.features == "both"
        if not refines and _kind(current) != _kind(new):
            return
        # A probe leaves conversations unscored whose kind it scores no better than chance, so for it the reason for no
        # score counts too. For another mode only scores count.
        with_reasons = new.features is not None
        count = _count_scores(conn, config_hash, with_reasons=with_reasons)
        if count < _count_scores(conn, current.config_hash, with_reasons=with_reasons):
            return
    replace_keeping_rule(conn, config_hash)


def _kind(config: ScoreConfig) -> tuple[str | None, ...]:
    """Returns what sets of one kind have in common: mode, features, model without the format that it was tuned to, and
    adapter."""
    return config.mode, config.features, config.model.partition(" (")[0], config.adapter


def replace_keeping_rule(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts a set of scores in force, under the decision rule of the one that it replaces."""
    settings.put(conn, IN_FORCE_SETTING, config_hash)


def switch_with_rules(conn: sqlite3.Connection, config_hash: str) -> None:
    """Puts another set of scores in force, with its own decision rule, and keeps that of the set that it replaces: a
    threshold fits one set only.

    A set that a person puts in force is no longer partial: it stays when others come.
    """
    if settings.get(conn, PARTIAL_SETTING) == config_hash:
        settings.put(conn, PARTIAL_SETTING, None)
    replaced = hash_in_force(conn)
    if replaced in (None, config_hash):
        replace_keeping_rule(conn, config_hash)
        return
    rules = {**settings.get(conn, OTHER_RULES_SETTING, {}), replaced: asdict(rule(conn))}
    settings.put(conn, RULE_SETTING, rules.pop(config_hash, {}))
    settings.put(conn, OTHER_RULES_SETTING, rules)
    replace_keeping_rule(conn, config_hash)


# Decision rules


def rule(conn: sqlite3.Connection, config_hash: str | None = None) -> DecisionRule:
    """Returns the decision rule of a set of scores; None is the set in force."""
    # Before any scoring there is one rule, that of the first scores to come.
    if config_hash in (None, hash_in_force(conn)) or hash_in_force(conn) is None:
        return DecisionRule(**settings.get(conn, RULE_SETTING, {}))
    return DecisionRule(**settings.get(conn, OTHER_RULES_SETTING, {}).get(config_hash, {}))


def put_rule(conn: sqlite3.Connection, new: DecisionRule) -> None:
    """Changes the decision rule; states follow at once, because they are derived when read.

    Raises:
        ValueError: the threshold is outside [0, 1] or the band is negative.
    """
    if not 0 <= new.threshold <= 1 or new.band < 0:
        raise ValueError(f"not a decision rule: {new}")
    settings.put(conn, RULE_SETTING, asdict(new))


def packed_word_weights(conn: sqlite3.Connection, config_hash: str) -> bytes | None:
    """Returns what `put_word_weights` stored; None where the set has none, as it reads no words, or was made in another
    project."""
    row = conn.execute(
        "SELECT weights FROM word_weights WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return None if row is None else bytes(row[0])


# Deleting sets


def put_partial(conn: sqlite3.Connection, config_hash: str | None) -> None:
    """Marks a set as partial; None marks none. The one that was marked before is deleted unless it is used."""
    previous = settings.get(conn, PARTIAL_SETTING)
    if previous not in (None, config_hash):
        _drop_unused(conn, previous)
    settings.put(conn, PARTIAL_SETTING, config_hash)


def drop_other_words(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the unused sets by words alone, except this one: they are made anew in seconds."""
    for config in configs(conn):
        if config.features == "words" and config.config_hash != config_hash:
            _drop_unused(conn, config.config_hash)


def _drop_unused(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes a set unless it is in force or has remaining tasks; its run stays."""
    written = conn.execute(
        "SELECT 1 FROM remaining WHERE score_config_hash = ? LIMIT 1", (config_hash,)
    )
    if config_hash != hash_in_force(conn) and written.fetchone() is None:
        drop(conn, config_hash)


def drop(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes a set of scores and the remaining tasks written for it; the run stays."""
    conn.execute("DELETE FROM remaining WHERE score_config_hash = ?", (config_hash,))
    for table in ("boundary_score", "score", "word_weights", "score_config"):
        conn.execute(f"DELETE FROM {table} WHERE config_hash = ?", (config_hash,))
