"""Validates the completeness scores of a project with the truncation test and, where there is any, with truth.

The test itself is in `engine.results.validation.cuts`; here a project is read for it. A *configuration* of scores is
the mode, model and adapter that made them, named by its hash; it gets one row of the table. *Baselines* need no model:
the keyword rule, and a regression on position and length. The *scoring* of a row holds its values by conversation and
boundary (`cuts.Values`). Conversations have two ids: the key in the project (`17`), and the *external id* that the
source gave them (`chat-2031`), by which training runs record them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import get_args

from engine.base.conversation import LogPiece, Verdict, render_log
from engine.base.errors import NotYet, UsageError, WorkbenchError
from engine.base.statistics.bootstrap import THRESHOLD
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, Mode, mode_in_words
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.truncation import Position, cross_fit_by_position, sounds_complete
from engine.conversations import shingle_overlap
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import names as external_ids_of
from engine.conversations.tables.conversations import truth_by_conversation
from engine.conversations.tables.selecting import ids as matching_ids
from engine.model.catalog import AdapterEntry, Catalog, display_name_of_adapter
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import id_pages, snapshot
from engine.questions.tables import answers
from engine.results.records import (
    AdapterTraining,
    CompletenessTable,
    RowKind,
    SeparationRow,
    TruncationTest,
)
from engine.results.validation import cuts
from engine.results.validation.claims import JUDGED_FAILED, claims_of
from engine.training.config import ConfigError, TrainConfig
from engine.training.run_directory import RunDirectory
from engine.training.run_files import all_runs, manifest_of, part_to_test, run_named

KEYWORDS = "keyword rule"
"""Title of the row of the rule on closing words."""

POSITION = "position alone"
"""Title of the row of the regression on position and length."""

_BASELINES: Mapping[str, RowKind] = {KEYWORDS: "keywords", POSITION: "position"}
"""The kind of each baseline by the title of its row."""

MIN_RELATIVE_COVERAGE = 0.5
"""Least coverage of a score relative to the score that covers the most conversations. A score below it gets no row: the
test uses only conversations that all rows cover, which would be too few."""

_RECIPE_WORDS = {"no-end-tag": "without an end tag"}
"""Words in titles for recipes whose own name is not used."""

HASH_CHARS_IN_TITLE = 8
"""Characters of a config hash in titles that would otherwise be the same."""


def completeness_table(
    project: Project, catalog: Catalog, test: TruncationTest, *, query: ListQuery
) -> CompletenessTable:
    """Returns the results of the truncation test, on the same conversations and cuts for every configuration of scores.

    The conversations on which the adapter of a matching configuration was trained, and those that selected its
    checkpoint, are left out if the project has the training run of the adapter.

    Args:
        catalog: Finds adapters by name or checksum, and knows how they were trained.
        test: What is tested, and how.
        query: Filter and order of the conversations.

    Raises:
        UsageError: The run or the scores do not exist, or no conversation can be cut.
    """
    data = _read_test_data(project, catalog, test, query)
    cuttable = sum(place.cut is not None for place in data.places_by_id.values())
    return CompletenessTable(
        run=test.run_name,
        seed=test.seed,
        threshold=THRESHOLD,
        asked=len(data.external_ids),
        single=len(data.places_by_id) - cuttable,
        n=cuttable,
        rows=tuple(_separation_row(title, data) for title in data.scorings),
        truths=cuts.truth_tables(data.scorings, data.places_by_id, data.claims),
        trained=data.testable.trained,
        selecting=data.testable.selecting,
        conclusion=cuts.best_against_baseline(data.scorings, data.places_by_id, _BASELINES),
        left_out=data.scored.left_out,
    )


def _separation_row(title: str, data: _TestData) -> SeparationRow:
    """Returns the row of the scoring with a title."""
    scoring, config = data.scorings[title], data.scored.configs.get(title)
    share, matched_pairs = cuts.matched_test(scoring, data.places_by_id)
    unknown = AdapterTraining()
    return SeparationRow(
        name=title,
        kind="scores" if config else _BASELINES[title],
        scored=len(scoring),
        metrics=cuts.cut_test(scoring, data.places_by_id, THRESHOLD).classification(),
        matched=share,
        matched_pairs=matched_pairs,
        config=config,
        training=data.trainings.get(config.config_hash, unknown) if config else unknown,
    )


@dataclass(frozen=True, slots=True)
class _TestData:
    """All data of a project that the truncation test needs.

    Attributes:
        testable: The conversations of the query that may be tested.
        external_ids: External id of each conversation that is tested, by its id; at most as many as the test allows.
        trainings: How the adapter of each configuration was trained, by config hash.
        scored: The configurations of scores that get a row.
        places_by_id: Where each conversation that all rows score ends and is cut.
        scorings: The values of each row by its title, those of the baselines included.
        claims: The claims that are decided for each tested conversation, by its id, and whether they hold.
    """

    testable: _TestableConversations
    external_ids: Mapping[int, str]
    trainings: Mapping[str, AdapterTraining]
    scored: _ScoredRows
    places_by_id: Mapping[int, cuts.Place]
    scorings: Mapping[str, cuts.Values]
    claims: Mapping[int, Mapping[str, bool]]


@dataclass(frozen=True, slots=True)
class _TestableConversations:
    """The conversations that may be tested, and how many were left out.

    Attributes:
        external_ids: External id of each conversation that may be tested, by its id.
        trained: Number of conversations left out because an adapter was trained on them.
        selecting: Number of those left out because they selected the checkpoint of an adapter.
    """

    external_ids: Mapping[int, str]
    trained: int
    selecting: int


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """The configurations of scores that get a row, and their values.

    Attributes:
        configs: The configurations, by the title of their row.
        scorings: The values of each row, by its title.
        left_out: Title of each configuration that covers too few conversations for a row, and how many it covers.
    """

    configs: Mapping[str, ScoreConfig]
    scorings: Mapping[str, cuts.Values]
    left_out: tuple[tuple[str, int], ...]


def _read_test_data(
    project: Project, catalog: Catalog, test: TruncationTest, query: ListQuery
) -> _TestData:
    """Reads and returns all data for the truncation test, in one snapshot; raises as `completeness_table`."""
    path = Path(project.path)
    runs_by_name = {run.path.name: run for run in all_runs(path)}
    test_part = None if test.run_name is None else part_to_test(run_named(path, test.run_name))
    adapter = None if test.adapter is None else _recorded_adapter_name(catalog, test.adapter)
    with project.reading() as conn, snapshot(conn):
        configs = _matching_configs(score_sets.configs(conn), test.mode, adapter)
        adapters = {config.adapter for config in configs}
        runs_in_use = [run for name, run in runs_by_name.items() if name in adapters]
        testable = _choose_conversations(conn, query, test_part, runs_in_use)
        external_ids = dict(islice(testable.external_ids.items(), test.limit))
        trainings = _adapter_trainings(conn, catalog, configs, runs_by_name)
        scored = _read_scored_rows(
            conn, configs, _titles(configs, trainings), list(external_ids), test
        )
        if not scored.scorings:
            raise NotYet(
                f"None of the {len(external_ids):,} conversations asked for is scored.",
                _scoring_hint(test.mode, adapter),
            )
        places_by_id = _places_to_cut(scored.scorings, external_ids, test.seed)
        scorings = {**scored.scorings, **_baseline_scorings(conn, places_by_id)}
        claims = claims_by_conversation(conn, external_ids.keys())
    return _TestData(
        testable=testable,
        external_ids=external_ids,
        trainings=trainings,
        scored=scored,
        places_by_id=places_by_id,
        scorings=scorings,
        claims=claims,
    )


def claims_by_conversation(
    conn: sqlite3.Connection, ids: Collection[int]
) -> dict[int, dict[str, bool]]:
    """Returns the claims that truth or a verdict decides, and whether they hold, by the id of the conversation."""
    claims = {key: claims_of(truth) for key, truth in truth_by_conversation(conn) if key in ids}
    for key, verdict in answers.in_force(conn):
        if key in ids and verdict is not Verdict.UNSURE:
            claims.setdefault(key, {})[JUDGED_FAILED] = verdict is Verdict.NO
    return claims


def _adapter_trainings(
    conn: sqlite3.Connection,
    catalog: Catalog,
    configs: Sequence[ScoreConfig],
    runs_by_name: Mapping[str, RunDirectory],
) -> dict[str, AdapterTraining]:
    """Returns how the adapter of each configuration was trained, by config hash, for those with an adapter.

    An adapter file is recognized by the SHA-256 that it had when it was used, wherever it is now. If no file has it,
    the recipe comes from the training run with the name of the adapter.

    Args:
        runs_by_name: The training runs of the project.
    """
    # the newest run comes first; reversed, so that the newest run of a configuration counts
    sha256_by_config = {
        run.config_hash: run.fingerprints.get("adapter_sha256")
        for run in reversed(runs.all_runs(conn))
    }
    trainings = {}
    for config in configs:
        if config.adapter is None:
            continue
        entry = _entry_with(catalog, sha256_by_config.get(config.config_hash))
        if entry is not None:
            trainings[config.config_hash] = AdapterTraining(
                entry.provenance.recipe, entry.conversations
            )
        elif config.adapter in runs_by_name:
            with contextlib.suppress(ConfigError):
                recipe = TrainConfig.load(runs_by_name[config.adapter].config).recipe
                trainings[config.config_hash] = AdapterTraining(recipe)
    return trainings


def _entry_with(catalog: Catalog, sha256: str | None) -> AdapterEntry | None:
    """Returns the adapter whose file has a checksum; None where there is none that can be read."""
    if sha256 is None:
        return None
    with contextlib.suppress(WorkbenchError, OSError):
        path = catalog.adapter_by_sha256(sha256)
        return None if path is None else catalog.entry_of_adapter_file(path)
    return None


def _read_scored_rows(
    conn: sqlite3.Connection,
    configs: Sequence[ScoreConfig],
    titles: Mapping[str, str],
    keys: Sequence[int],
    test: TruncationTest,
) -> _ScoredRows:
    """Reads the values of each configuration for some conversations, and returns those that get a row.

    Args:
        titles: Title of each configuration, by its hash.
        keys: Ids of the conversations.

    Raises:
        NotYet: The test needs what the models write at boundaries, and that was not recorded.
    """
    read_values = scores.generated_curves if test.paper else scores.normalized_curves
    values = {config.config_hash: read_values(conn, config.config_hash, keys) for config in configs}
    if test.paper and not any(values.values()):
        raise NotYet(
            "What the models write at the boundaries was not recorded for these scores.",
            "`workbench run complete PROJECT --paper` scores with a model of this machine.",
        )
    covered, left_out = _split_by_coverage(configs, values)
    scorings: dict[str, cuts.Values] = {
        titles[config.config_hash]: values[config.config_hash] for config in covered
    }
    return _ScoredRows(
        {titles[config.config_hash]: config for config in covered},
        scorings,
        tuple((titles[config.config_hash], len(values[config.config_hash])) for config in left_out),
    )


def _places_to_cut(
    scorings: Mapping[str, cuts.Values], external_ids: Mapping[int, str], seed: int
) -> dict[int, cuts.Place]:
    """Returns where each conversation that all rows score ends and is cut.

    Raises:
        NotYet: None of them can be cut.
    """
    places_by_id = cuts.cut_places(scorings, external_ids, seed)
    if all(place.cut is None for place in places_by_id.values()):
        raise NotYet(
            f"Of {len(external_ids):,} conversations none is scored by all rows and could end in two places, so"
            " that nothing can be cut.",
            "Ask for one row with --mode or --adapter, or score more.",
        )
    return places_by_id


def _recorded_adapter_name(catalog: Catalog, adapter: str) -> str:
    """Returns the name under which scores record an adapter, which need not be in the catalog."""
    try:
        return display_name_of_adapter(catalog.resolve_adapter_path(adapter))
    except UsageError:
        return display_name_of_adapter(Path(adapter))


def _matching_configs(
    configs: Sequence[ScoreConfig], mode: Mode | None, adapter: str | None
) -> list[ScoreConfig]:
    """Returns the configurations with a mode and an adapter, in the order of the modes.

    Probes on words and states come before those on states alone.

    Args:
        mode, adapter: Restrict the configurations; None allows any.

    Raises:
        NotYet: There are none.
    """
    if not configs:
        raise NotYet("Nothing is scored yet.", _scoring_hint(mode, adapter))
    matching = [
        config
        for config in configs
        if mode in (None, config.mode) and adapter in (None, config.adapter)
    ]
    if not matching:
        wanted = {"mode": mode, "adapter": adapter}
        names = " and ".join(f"{option} {value}" for option, value in wanted.items() if value)
        raise NotYet(f"There are no scores of {names}.", _scoring_hint(mode, adapter))
    return sorted(
        matching,
        key=lambda config: (get_args(Mode).index(config.mode), config.features == "states"),
    )


def _scoring_hint(mode: Mode | None, adapter: str | None) -> str:
    """Returns a sentence with the command that makes scores with a mode and an adapter."""
    words = f" --mode {mode}" if mode else ""
    if adapter:
        words += f" --adapter {adapter}"
    return f"`workbench run complete PROJECT{words}` makes scores."


def _choose_conversations(
    conn: sqlite3.Connection,
    query: ListQuery,
    test_part: Collection[str] | None,
    runs_in_use: Sequence[RunDirectory],
) -> _TestableConversations:
    """Returns the conversations of a query on which no training run in use was trained, nor its checkpoint selected.

    Args:
        test_part: External ids of the only conversations that may be tested; None allows all.
        runs_in_use: The training runs whose adapters made the scores.
    """
    manifests = [manifest_of(run) for run in runs_in_use]
    trained_on = {str(name) for manifest in manifests for name in manifest.get("train", ())}
    selected_by = {str(name) for manifest in manifests for name in manifest.get("valid", ())}
    external_ids: dict[int, str] = {}
    trained = selecting = 0
    for page in id_pages(conn, matching_ids(conn, query)):
        ids_of_page = external_ids_of(conn, page)
        for key in page:
            external_id = ids_of_page[key]
            if test_part is not None and external_id not in test_part:
                continue
            if external_id in trained_on:
                trained += 1
            elif external_id in selected_by:
                selecting += 1
            else:
                external_ids[key] = external_id
    return _TestableConversations(external_ids, trained, selecting)


def _split_by_coverage(
    configs: Sequence[ScoreConfig], values: Mapping[str, cuts.Values]
) -> tuple[list[ScoreConfig], list[ScoreConfig]]:
    """Returns the configurations that get a row, and those whose coverage is below `MIN_RELATIVE_COVERAGE`."""
    widest_coverage = max(map(len, values.values()))
    covered = [
        config
        for config in configs
        if widest_coverage
        and len(values[config.config_hash]) >= MIN_RELATIVE_COVERAGE * widest_coverage
    ]
    return covered, [config for config in configs if config not in covered]


def _titles(
    configs: Sequence[ScoreConfig], trainings: Mapping[str, AdapterTraining]
) -> dict[str, str]:
    """Returns a title by config hash: mode and recipe, with model and hash where titles would otherwise be the same."""
    titles = {config.config_hash: _title(config, trainings) for config in configs}
    models = {config.config_hash: f", {config.model}" if config.model else "" for config in configs}
    short_hashes = {
        config.config_hash: f", {config.config_hash[:HASH_CHARS_IN_TITLE]}" for config in configs
    }
    for additions in (models, short_hashes):
        title_counts = Counter(titles.values())
        for config_hash, title in titles.items():
            if title_counts[title] > 1:
                titles[config_hash] = title + additions[config_hash]
    return titles


def _title(config: ScoreConfig, trainings: Mapping[str, AdapterTraining]) -> str:
    """Returns the title of a configuration: its mode, with the recipe and the name of the adapter."""
    if config.mode != "tuned":
        return mode_in_words(config.mode, config.features)
    if config.adapter is None:
        return "tuned, no adapter"
    recipe = trainings.get(config.config_hash, AdapterTraining()).recipe
    words = ["tuned", _RECIPE_WORDS.get(recipe, recipe), f"({config.adapter})"]
    return " ".join(filter(None, words))


def _baseline_scorings(
    conn: sqlite3.Connection, places_by_id: Mapping[int, cuts.Place]
) -> dict[str, cuts.Values]:
    """Returns the values of the baselines at the same boundaries, by the title of the row.

    There is no regression with fewer than `MIN_CONVERSATIONS_FOR_PROBE` conversations that can be cut; nearly equal
    conversations count as one.
    """
    keywords: dict[int, dict[int, float | None]] = {}
    positions: list[list[Position]] = []
    shingles = []
    for page in id_pages(conn, list(places_by_id)):
        for key, messages in conversations.conversations_for(conn, page):
            pieces = render_log(messages)
            piece_of_message = {piece.message: index for index, piece in enumerate(pieces)}
            boundary_pieces = [
                piece_of_message[message] for message in places_by_id[key].boundaries
            ]
            keywords[key] = {
                pieces[index].message: float(sounds_complete(pieces[: index + 1]))
                for index in boundary_pieces
            }
            positions.append(_boundary_positions(pieces, boundary_pieces))
            shingles.append(shingle_overlap.log_shingles(pieces))
    baselines: dict[str, cuts.Values] = {KEYWORDS: keywords}
    groups = shingle_overlap.groups(shingles)
    # a conversation with two boundaries or more can be cut
    cuttable_groups = {
        int(group)
        for group, boundaries in zip(groups, positions, strict=True)
        if len(boundaries) > 1
    }
    if len(cuttable_groups) >= MIN_CONVERSATIONS_FOR_PROBE:
        # the values of all conversations follow each other, in the order in which they are taken out
        values = iter(cross_fit_by_position(positions, groups).p.tolist())
        baselines[POSITION] = {
            key: {message: next(values) for message in places_by_id[key].boundaries}
            for key in keywords
        }
    return baselines


def _boundary_positions(
    pieces: Sequence[LogPiece], boundary_pieces: Sequence[int]
) -> list[Position]:
    """Returns the number of each boundary, the characters up to its end, and those of its own piece.

    Args:
        boundary_pieces: Index of the piece of each boundary.
    """
    piece_chars = [len(piece.text) for piece in pieces]
    chars_so_far = list(accumulate(piece_chars))
    return [
        Position(number, chars_so_far[index], piece_chars[index])
        for number, index in enumerate(boundary_pieces)
    ]
