"""Validates the completeness scores of a project: with the truncation test and, where there is any, with truth.

The *truncation test* holds whole conversations against the same ones cut off at an earlier boundary (a place after
which a conversation could end): scores should be higher for the whole ones. AUROC is the probability that they are, for
a whole and a cut conversation drawn at random; F1 is that of calling a value from the threshold up whole. A *scoring*
is the values that one model or rule gives at the boundaries. A *configuration* of scores is the mode, model and adapter
that made them, named by its hash; it gets one row of the table. Conversations have two ids: the key in the project, and
the *external id* that the source gave them, by which training runs record them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import get_args

import numpy as np

from engine.base.conversation import LogPiece, Verdict, render_log
from engine.base.errors import NotYet, UsageError, WorkbenchError
from engine.base.statistics.bootstrap import THRESHOLD, BootstrapDraws, draw
from engine.base.statistics.intervals import Classification, Interval
from engine.base.statistics.ranking import placements
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, Mode, mode_in_words
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.truncation import (
    Position,
    cross_fit_by_position,
    cut_at,
    matched,
    sounds_complete,
)
from engine.conversations import shingle_overlap
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import names as external_ids_of
from engine.conversations.tables.conversations import truth_by_conversation
from engine.conversations.tables.selecting import ids as matching_ids
from engine.model.catalog import AdapterEntry, Catalog, adapter_name
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
    TruthRow,
    TruthTable,
)
from engine.results.validation import claims as truths
from engine.results.validation.claims import JUDGED_FAILED, areas_in_words, of_conversation
from engine.training.config import ConfigError, TrainConfig
from engine.training.events import RunDirectory
from engine.training.run_files import all_runs, manifest_of, part_to_test, run_named

KEYWORDS = "keyword rule"
"""Title of the row of the rule on closing words."""

POSITION = "position alone"
"""Title of the row of the regression on position and length."""

_BASELINES: Mapping[str, RowKind] = {KEYWORDS: "keywords", POSITION: "position"}
"""The rows that need no model."""

MIN_RELATIVE_COVERAGE = 0.5
"""Least coverage of a row, relative to the scores with the best coverage. Scores below it get no row: the test uses
only conversations that all rows cover, and these would be too few."""

_RECIPE_WORDS = {"no-end-tag": "without an end tag"}
"""How a title names recipes that do not go by their own name."""

HASH_CHARS_IN_TITLE = 8
"""Characters of a config hash in titles that would otherwise be the same."""


def adapter_trainings(
    conn: sqlite3.Connection,
    catalog: Catalog,
    configs: Sequence[ScoreConfig],
    runs_by_name: Mapping[str, RunDirectory],
) -> dict[str, AdapterTraining]:
    """Returns how the adapter of each configuration was trained, by config hash; the others have no adapter.

    An adapter file is recognized by its SHA-256 at the time of use, wherever it is now. If no file matches, the recipe
    comes from the training run of the same name.

    Args:
        runs_by_name: The project's training runs.
    """
    # all_runs gives the newest first; reversed, so that the newest run of a configuration counts
    sha256_by_config = {
        run.config_hash: run.fingerprints.get("adapter_sha256")
        for run in reversed(runs.all_runs(conn))
    }
    origins = {}
    for config in configs:
        if config.adapter is None:
            continue
        entry = _entry_with(catalog, sha256_by_config.get(config.config_hash))
        if entry is not None:
            origins[config.config_hash] = AdapterTraining(entry.made_of.recipe, entry.conversations)
        elif config.adapter in runs_by_name:
            with contextlib.suppress(ConfigError):
                recipe = TrainConfig.load(runs_by_name[config.adapter].config).recipe
                origins[config.config_hash] = AdapterTraining(recipe)
    return origins


def _entry_with(catalog: Catalog, sha256: str | None) -> AdapterEntry | None:
    """Returns the adapter whose file has this checksum; None where there is none that can be read."""
    if sha256 is None:
        return None
    with contextlib.suppress(WorkbenchError, OSError):
        path = catalog.adapter_with(sha256)
        return None if path is None else catalog.adapter_entry(path)
    return None


@dataclass(frozen=True, slots=True)
class _TestableConversations:
    """The conversations to test, and how many were left out.

    Attributes:
        external_ids: The id in the source of each conversation to test, by its id.
        trained: Number of conversations left out because an adapter was trained on them.
        selecting: Number of those left out because they selected the checkpoint of an adapter.
    """

    external_ids: Mapping[int, str]
    trained: int
    selecting: int


def only_run(project: Path) -> str | None:
    """Returns the name of a project's only training run; None when it has none or several."""
    runs_of_project = all_runs(project)
    return runs_of_project[0].path.name if len(runs_of_project) == 1 else None


def completeness_table(
    project: Project,
    catalog: Catalog,
    test: TruncationTest,
    *,
    query: ListQuery | None = None,
) -> CompletenessTable:
    """Runs the truncation test on the same conversations and cuts for every configuration of scores.

    Leaves out the conversations that an adapter with a row was trained on, and those that selected its checkpoint.

    Args:
        catalog: Resolves adapters by name or checksum, and records how they were trained.
        test: What is tested, and how.
        query: Filter and order of the conversations; None takes all in id order.

    Raises:
        UsageError: The run or the scores do not exist, or no conversation can be cut.
    """
    data = _read_test_data(project, catalog, test, query or ListQuery())
    scored, places_by_id, scorings = data.scored, data.places_by_id, data.scorings
    cuttable = sum(place.cut is not None for place in places_by_id.values())
    return CompletenessTable(
        run=test.run_name,
        seed=test.seed,
        threshold=THRESHOLD,
        asked=len(data.external_ids),
        single=len(places_by_id) - cuttable,
        n=cuttable,
        rows=tuple(
            _separation_row(
                title,
                scoring,
                places_by_id,
                metrics=cut_test(scoring, places_by_id, THRESHOLD).classification(),
                config=config,
                training=data.training_of(config),
            )
            for title, scoring in scorings.items()
            for config in [scored.configs.get(title)]
        ),
        truths=truth_tables(scorings, places_by_id, data.claims),
        trained=data.testable.trained,
        selecting=data.testable.selecting,
        conclusion=best_against_baseline(scorings, places_by_id, _BASELINES),
        left_out=scored.left_out,
    )


def claims_by_conversation(
    conn: sqlite3.Connection, ids: Collection[int]
) -> dict[int, dict[str, bool]]:
    """Returns whether each claim that truth or a verdict decides holds, by the id of the conversation."""
    claims = {
        key: of_conversation(truth) for key, truth in truth_by_conversation(conn) if key in ids
    }
    for key, verdict in answers.in_force(conn):
        if key in ids and verdict is not Verdict.UNSURE:
            claims.setdefault(key, {})[JUDGED_FAILED] = verdict is Verdict.NO
    return claims


@dataclass(frozen=True, slots=True)
class _TestData:
    """What the truncation test reads of a project.

    Attributes:
        testable: The conversations of the query that may be tested.
        external_ids: Id in the source of each conversation that is tested, at most as many as the test allows, by id.
        origins: How the adapter of each configuration was trained, by config hash.
        scored: The configurations of scores that get a row.
        places_by_id: Where each conversation that all rows score ends and is cut.
        scorings: The values of each row by its title, those of the baselines included.
        claims: Whether each claim about a tested conversation holds that is decided, by the id of the conversation.
    """

    testable: _TestableConversations
    external_ids: Mapping[int, str]
    origins: Mapping[str, AdapterTraining]
    scored: _ScoredRows
    places_by_id: Mapping[int, Place]
    scorings: Mapping[str, Values]
    claims: Mapping[int, Mapping[str, bool]]

    def training_of(self, config: ScoreConfig | None) -> AdapterTraining:
        """Returns how the adapter of a configuration was trained; unknown for None, a baseline."""
        return (
            AdapterTraining()
            if config is None
            else self.origins.get(config.config_hash, AdapterTraining())
        )


def _read_test_data(
    project: Project, catalog: Catalog, test: TruncationTest, query: ListQuery
) -> _TestData:
    """Reads, in one snapshot of the project, all that the truncation test works on; raises as `completeness_table`."""
    path = Path(project.path)
    runs_by_name = {run.path.name: run for run in all_runs(path)}
    test_part = None if test.run_name is None else part_to_test(run_named(path, test.run_name))
    adapter = None if test.adapter is None else _recorded_adapter_name(catalog, test.adapter)
    with project.reading() as conn, snapshot(conn):
        configs = _matching_configs(score_sets.configs(conn), test.mode, adapter)
        runs_in_use: dict[str | None, RunDirectory] = {
            config.adapter: runs_by_name[config.adapter]
            for config in configs
            if config.adapter in runs_by_name
        }
        testable = _choose_conversations(conn, query, test_part, list(runs_in_use.values()))
        keys = list(testable.external_ids)[: test.limit]
        external_ids = {key: testable.external_ids[key] for key in keys}
        origins = adapter_trainings(conn, catalog, configs, runs_by_name)
        scored = _read_scored_rows(conn, configs, _titles(configs, origins), keys, test)
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
        origins=origins,
        scored=scored,
        places_by_id=places_by_id,
        scorings=scorings,
        claims=claims,
    )


@dataclass(frozen=True, slots=True)
class _ScoredRows:
    """The configurations of scores that get a row, and their values.

    Attributes:
        configs: The configurations, by the title of their row.
        scorings: The values of each row, by its title.
        left_out: Title of each configuration that covers too few conversations for a row, and how many it covers.
    """

    configs: Mapping[str, ScoreConfig]
    scorings: Mapping[str, Values]
    left_out: tuple[tuple[str, int], ...]


def _read_scored_rows(
    conn: sqlite3.Connection,
    configs: Sequence[ScoreConfig],
    titles: Mapping[str, str],
    keys: Sequence[int],
    test: TruncationTest,
) -> _ScoredRows:
    """Reads the values of each configuration for these conversations; the result is empty where none is scored.

    Args:
        titles: Title of each configuration, by its hash.

    Raises:
        NotYet: The test needs what the models write, and that was not recorded.
    """
    read_values = scores.generated_curves if test.paper else scores.normalized_curves
    values = {config.config_hash: read_values(conn, config.config_hash, keys) for config in configs}
    if test.paper and not any(values.values()):
        raise NotYet(
            "What the models write at the boundaries was not recorded for these scores.",
            "`workbench run complete PROJECT --paper` scores with a model of this machine.",
        )
    covered, left_out = _split_by_coverage(configs, values)
    scorings: dict[str, Values] = {
        titles[config.config_hash]: values[config.config_hash] for config in covered
    }
    return _ScoredRows(
        {titles[config.config_hash]: config for config in covered},
        scorings,
        tuple((titles[config.config_hash], len(values[config.config_hash])) for config in left_out),
    )


def _places_to_cut(
    scorings: Mapping[str, Values], external_ids: Mapping[int, str], seed: int
) -> dict[int, Place]:
    """Returns where each conversation that all rows score ends and is cut.

    Raises:
        NotYet: None of them can be cut.
    """
    places_by_id = cut_places(scorings, external_ids, seed)
    if all(place.cut is None for place in places_by_id.values()):
        raise NotYet(
            f"Of {len(external_ids):,} conversations none is scored by all rows and could end in two places, so"
            " that nothing can be cut.",
            "Ask for one row with --mode or --adapter, or score more.",
        )
    return places_by_id


def _recorded_adapter_name(catalog: Catalog, adapter: str) -> str:
    """Returns the name under which scores record an adapter; the given name when the catalog has no such adapter."""
    try:
        return adapter_name(catalog.adapter_path(adapter))
    except UsageError:
        return adapter_name(Path(adapter))


def _matching_configs(
    configs: Sequence[ScoreConfig], mode: Mode | None, adapter: str | None
) -> list[ScoreConfig]:
    """Returns the scores of a mode and an adapter (of any for None), in the order of the modes;
    of probes those on words and states come first.

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
        options = [f"mode {mode}"] * (mode is not None) + [f"adapter {adapter}"] * (
            adapter is not None
        )
        raise NotYet(
            f"There are no scores of {' and '.join(options)}.", _scoring_hint(mode, adapter)
        )
    return sorted(
        matching,
        key=lambda config: (get_args(Mode).index(config.mode), config.features == "states"),
    )


def _scoring_hint(mode: Mode | None, adapter: str | None) -> str:
    """Returns a sentence with the command that makes such scores."""
    words = f" --mode {mode}" if mode else ""
    words += f" --adapter {adapter}" if adapter else ""
    return f"`workbench run complete PROJECT{words}` makes scores."


def _choose_conversations(
    conn: sqlite3.Connection,
    query: ListQuery,
    test_part: Collection[str] | None,
    runs_in_use: Sequence[RunDirectory],
) -> _TestableConversations:
    """Returns the conversations of a query that no run in use was trained on or selected by.

    Args:
        test_part: Ids in the source of the only conversations to test; None tests all.
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
    configs: Sequence[ScoreConfig], values: Mapping[str, Values]
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
    configs: Sequence[ScoreConfig], origins: Mapping[str, AdapterTraining]
) -> dict[str, str]:
    """Returns a title for each config hash: mode and recipe, then model and hash where needed to tell titles apart."""
    titles = {config.config_hash: _title(config, origins) for config in configs}
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


def _title(config: ScoreConfig, origins: Mapping[str, AdapterTraining]) -> str:
    """Returns the mode of scores, with the recipe and the name of their adapter."""
    if config.mode != "tuned":
        return mode_in_words(config.mode, config.features)
    if config.adapter is None:
        return "tuned, no adapter"
    recipe = origins.get(config.config_hash, AdapterTraining()).recipe
    words = ["tuned", _RECIPE_WORDS.get(recipe, recipe), f"({config.adapter})"]
    return " ".join(filter(None, words))


def _baseline_scorings(
    conn: sqlite3.Connection, places_by_id: Mapping[int, Place]
) -> dict[str, Values]:
    """Scores the same boundaries without a model: by the keyword rule, and by a regression on position and length.

    There is none by position with fewer than `MIN_CONVERSATIONS_FOR_PROBE` conversations that can be cut, nearly equal
    ones counted once.
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
    baselines: dict[str, Values] = {KEYWORDS: keywords}
    groups = shingle_overlap.groups(shingles)
    # a conversation with two boundaries or more can be cut
    cuttable_groups = {
        int(group)
        for group, boundaries in zip(groups, positions, strict=True)
        if len(boundaries) > 1
    }
    if len(cuttable_groups) >= MIN_CONVERSATIONS_FOR_PROBE:
        # the values of all conversations one after the other, dealt back in the same order
        values = iter(cross_fit_by_position(positions, groups).p.tolist())
        baselines[POSITION] = {
            key: {message: next(values) for message in places_by_id[key].boundaries}
            for key in keywords
        }
    return baselines


def _boundary_positions(
    pieces: Sequence[LogPiece], boundary_pieces: Sequence[int]
) -> list[Position]:
    """Returns the number, the characters so far and the own characters of each boundary, by the index of its piece."""
    piece_chars = [len(piece.text) for piece in pieces]
    chars_so_far = list(accumulate(piece_chars))
    return [
        Position(number, chars_so_far[index], piece_chars[index])
        for number, index in enumerate(boundary_pieces)
    ]


def _separation_row(
    title: str,
    scoring: Values,
    places_by_id: Mapping[int, Place],
    metrics: Classification,
    config: ScoreConfig | None,
    training: AdapterTraining,
) -> SeparationRow:
    """Returns the row of one scoring; `config` is None for a baseline."""
    share, matched_pairs = matched_test(scoring, places_by_id)
    return SeparationRow(
        name=title,
        kind="scores" if config else _BASELINES[title],
        scored=len(scoring),
        metrics=metrics,
        matched=share,
        matched_pairs=matched_pairs,
        config=config,
        training=training,
    )


Values = Mapping[int, Mapping[int, float | None]]
"""Conversation id -> index of the boundary message, ascending -> normalized score; None where it is unscored."""

_LOW_CLAIMS = ("not complete", "reward 0", "reward below 1", truths.JUDGED_FAILED)
"""The claims of `engine.results.validation.claims.CLAIMS` that a low value at the end should predict."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation ends and is cut, as indices of messages.

    Attributes:
        last: The last boundary.
        cut: The boundary at which it is cut; None when it has only one.
        boundaries: All boundaries that every scoring has, in order.
    """

    last: int
    cut: int | None
    boundaries: tuple[int, ...]


def cut_places(
    scorings: Mapping[str, Values], names: Mapping[int, str], seed: int
) -> dict[int, Place]:
    """Returns the places to compare, for the conversations that every scoring scored at the end and at the cut.

    Args:
        scorings: The scorings by name, at least one.
        names: The id in the source of each conversation to test.
        seed: Seed of the cuts.
    """
    by_conversation = {}
    for key, name in names.items():
        curves = [scoring.get(key, {}) for scoring in scorings.values()]
        # Older scorings may have fewer boundaries, and the cut must be the same for all scorings.
        shared = [message for message in curves[0] if all(message in curve for curve in curves)]
        if not shared or any(max(curve) != shared[-1] for curve in curves):
            continue
        cut_index = cut_at(seed, name, len(shared))
        cut = None if cut_index is None else shared[cut_index]
        place = Place(shared[-1], cut, tuple(shared))
        needed = [place.last] if place.cut is None else [place.last, place.cut]
        if all(curve[message] is not None for curve in curves for message in needed):
            by_conversation[key] = place
    return by_conversation


def cut_test(
    scoring: Values, places_by_id: Mapping[int, Place], threshold: float
) -> BootstrapDraws:
    """Measures how well a scoring separates whole conversations from cut ones, observed and in bootstrap draws.

    Args:
        places_by_id: Result of `cut_places` for scorings that include this one.

    Raises:
        ValueError: No conversation can be cut.
    """
    return draw(*pairs(scoring, places_by_id), threshold)


def matched_test(scoring: Values, places_by_id: Mapping[int, Place]) -> tuple[Interval | None, int]:
    """Measures how well a scoring tells whole conversations from longer ones cut at the same boundary.

    Returns:
        See `engine.completeness.truncation.matched`.
    """
    curves = [
        [scoring[key][message] for message in place.boundaries]
        for key, place in places_by_id.items()
    ]
    return matched([np.array(curve, dtype=float) for curve in curves])


def pairs(
    scoring: Values, places_by_id: Mapping[int, Place]
) -> tuple[list[float], list[bool], list[int]]:
    """Returns three parallel lists: the values of all whole and then all cut conversations, whether each is of a whole
    one, and the id of its conversation."""
    cut = {key: place for key, place in places_by_id.items() if place.cut is not None}
    values = [_value_of_boundary(scoring, key, place.last) for key, place in cut.items()]
    values += [
        _value_of_boundary(scoring, key, place.cut)
        for key, place in cut.items()
        if place.cut is not None
    ]
    return values, [True] * len(cut) + [False] * len(cut), 2 * list(cut)


def best_against_baseline(
    scorings: Mapping[str, Values], places_by_id: Mapping[int, Place], baselines: Collection[str]
) -> str:
    """Returns a sentence on the scores with the largest area in the truncation test against the baseline with the
    largest one; empty where one of the two is missing."""
    placed = {name: placements(*pairs(scoring, places_by_id)) for name, scoring in scorings.items()}
    by_area = sorted(placed, key=lambda name: -placed[name].area)
    own = next((name for name in by_area if name not in baselines), None)
    other = next((name for name in by_area if name in baselines), None)
    if own is None or other is None:
        return ""
    return areas_in_words((own, other), (placed[own], placed[other]))


def truth_tables(
    scorings: Mapping[str, Values],
    places_by_id: Mapping[int, Place],
    claims_by_id: Mapping[int, Mapping[str, bool]],
) -> tuple[TruthTable, ...]:
    """Returns a table for each of `_LOW_CLAIMS` that is decided for some conversation, except claims that have the same
    answers as an earlier one.

    Args:
        places_by_id: Result of `cut_places`.
        claims_by_id: Whether each claim that is decided holds, by the id of the conversation.
    """
    tables: list[TruthTable] = []
    earlier_answers: list[dict[int, bool]] = []
    for claim in _LOW_CLAIMS:
        answers = {key: claims[claim] for key, claims in claims_by_id.items() if claim in claims}
        # of those whose answer is known, the ones that every scoring scored
        holds = {key: answers[key] for key in places_by_id if key in answers}
        if not holds or answers in earlier_answers:
            continue
        earlier_answers.append(answers)
        positives = sum(holds.values())
        # a low value should predict the claim, so that high inverted ones do
        inverted = {
            name: [1 - _value_of_boundary(scoring, key, places_by_id[key].last) for key in holds]
            for name, scoring in scorings.items()
        }
        has_both_answers = 0 < positives < len(holds)
        rows = _truth_rows(inverted, list(holds.values())) if has_both_answers else ()
        tables.append(
            TruthTable(
                claim,
                description=truths.CLAIMS[claim],
                holds=positives,
                fails=len(holds) - positives,
                known=len(answers),
                rows=rows,
            )
        )
    return tuple(tables)


def _truth_rows(inverted: Mapping[str, list[float]], holds: list[bool]) -> tuple[TruthRow, ...]:
    """Returns a row for each scoring, whose values should be high where the claim holds."""
    classifications = {
        name: draw(values, holds).classification() for name, values in inverted.items()
    }
    return tuple(
        TruthRow(name, classifications[name].auroc, classifications[name].ap) for name in inverted
    )


def _value_of_boundary(scoring: Values, key: int, message: int) -> float:
    """Returns the value of a conversation after a message.

    Raises:
        ValueError: There is none, although `cut_places` chose the message.
    """
    value = scoring[key][message]
    if value is None:
        raise ValueError(f"Conversation {key} has no honest number after message {message}.")
    return value
