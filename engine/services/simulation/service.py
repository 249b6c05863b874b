"""What the simulation screens are handed: wishes are played, and what was played is laid out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from engine.errors import ProjectError, UsageError
from engine.events import JobProgress
from engine.jobs.contract import Stage
from engine.records.simulation import PlayEstimate, PlaySetting, TranscriptLine
from engine.services.line_files import write_file
from engine.services.simulation.drafts import opened_drafts
from engine.services.simulation.forms import asked_forms
from engine.services.simulation.live import LivePlays
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.person_session import ProjectTalk, filling
from engine.services.simulation.records import (
    Drafts,
    FormTalk,
    LivePlay,
    PlayedSet,
    SetResults,
    SimulationOffers,
    SimulationRequest,
)
from engine.services.simulation.requests import as_request, request_as_json, simulation_of
from engine.services.simulation.result_tables import item_of, sheets_of
from engine.services.simulation.sharded import MAKING
from engine.services.simulation.simulations import ProjectSimulations, Simulation
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.run import VARIANTS, Variant
from engine.simulate.recsim.people import LANGUAGES, TASKS
from engine.simulate.sharded.instruction import COME_ALONG
from engine.simulate.sharded.scenario import ALL_CONDITIONS, CONDITIONS
from engine.store import settings
from engine.store.project import Project

SETTING = "simulations"
"""The setting: what was asked for last, and by the key of each set that was started on the screen."""
_TOLD = {"seed": "seed", "temperature": "temperature", "language": "language"}
"""Parameters of a set that are told beside its models."""


class SimulationService:
    """See `engine.services.simulation.records.Simulations`."""

    def __init__(
        self,
        project: Project,
        simulations: ProjectSimulations,
        start: Callable[[Sequence[Stage]], int],
        active: Callable[[], Sequence[JobProgress]],
        models: Callable[[], Sequence[str]],
        priced: Callable[[SimulationOptions], bool],
    ) -> None:
        """Prepares.

        Args:
            start: Runs stages in the background and gives the job id.
            active: The jobs that run.
            models: Names of the models, the project's own for simulations first.
            priced: Whether a reply may cost something.
        """
        self._project, self._simulations = project, simulations
        self._start, self._active = start, active
        self._models, self._priced = models, priced
        self._live = LivePlays()

    # What can be asked for

    def offers(self) -> SimulationOffers:
        """See the port."""
        kept = self._kept()
        try:
            last = as_request(kept["last"]) if "last" in kept else None
        except UsageError:
            last = None
        return SimulationOffers(
            tuple(self._models()),
            tuple(COME_ALONG),
            ALL_CONDITIONS,
            CONDITIONS,
            tuple(TOPICS.items()),
            VARIANTS,
            TASKS,
            LANGUAGES,
            last,
        )

    def estimate(self, wish: SimulationRequest) -> PlayEstimate:
        """See the port."""
        return self._made(wish).play.estimate()

    def start(self, wish: SimulationRequest) -> int:
        """See the port."""
        return self._begin(wish, self._made(wish))

    def go_on(self, config_hash: str) -> int:
        """See the port."""
        kept = self._kept().get("sets", {})
        if config_hash not in kept:
            raise UsageError(
                "It is not known here what was asked for.",
                "The command that started it goes on with it; a form that you were filling, F in Simulation.",
            )
        wish = as_request(kept[config_hash])
        made = self._made(wish)
        if made.play.config_hash != config_hash:
            raise UsageError(
                "A prompt, a model or the program has changed since, so this would be another set.",
                "Start a new simulation.",
            )
        return self._begin(wish, made)

    def _made(self, wish: SimulationRequest) -> Simulation:
        return simulation_of(wish, self._simulations, self._priced)

    def _begin(self, wish: SimulationRequest, made: Simulation) -> int:
        made.play.heard = partial(self._live.hear, made)
        job = self._start(made.stages)
        kept = self._kept()
        kept["last"] = request_as_json(wish)
        if not made.before:  # what is tuned first may change what the set is called
            kept.setdefault("sets", {})[made.play.config_hash] = request_as_json(wish)
        self._project.write(lambda conn: settings.put(conn, SETTING, kept))
        return job

    def _kept(self) -> dict[str, Any]:
        with self._project.reading() as conn:
            return dict(settings.get(conn, SETTING, {}))

    # What was played

    def sets(self) -> list[PlayedSet]:
        """See the port."""
        kept = self._kept().get("sets", {})
        found = self._simulations.settings()
        return [_set(one, one.config_hash in kept) for one in reversed(found)]

    def results(self, config_hash: str) -> SetResults:
        """See the port."""
        rows = self._simulations.rows(config_hash)
        kind = rows[0].kind if rows else ""
        return SetResults(sheets_of(kind, rows), tuple(item_of(row) for row in rows))

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        """See the port."""
        return self._simulations.transcript(play_id)

    def export(self, config_hash: str, path: str) -> None:
        """See the port."""
        place = Path(os.path.expanduser(path))
        if place.exists():
            raise ProjectError(f"{place} is there already.", "Choose another name.")
        rows = self._simulations.rows(config_hash)
        results = self.results(config_hash)
        tables = [
            {
                "table": sheet.title,
                "rows": [
                    dict(zip((one.name for one in sheet.columns), row.values, strict=True))
                    for row in sheet.rows
                ],
            }
            for sheet in results.sheets
        ]
        told = {"config": config_hash, "tables": tables, "plays": [asdict(row) for row in rows]}
        write_file([told], place, "jsonl")

    # Live

    def live(self) -> list[LivePlay]:
        """See the port."""
        return self._live.newest()

    # Shards

    def open_drafts(self, path: str) -> Drafts:
        """See the port."""
        return opened_drafts(path, lambda: self._simulations.rows_of(MAKING))

    # A person

    def fill_form(self, form: str, variant: str, model: str | None) -> FormTalk:
        """See the port."""
        (asked,) = asked_forms([form if form in TOPICS else os.path.expanduser(form)])
        begun = filling(self._simulations, asked, cast(Variant, variant), model)
        heard = partial(self._live.hear, begun)
        return ProjectTalk(begun, self._start, self._active, self._simulations, heard)


def _set(setting: PlaySetting, can_go_on: bool) -> PlayedSet:
    told = [
        f"{name} {setting.params[key]}"
        for key, name in _TOLD.items()
        if setting.params.get(key) is not None
    ]
    return PlayedSet(
        setting.config_hash,
        setting.kind,
        f"{setting.kind}-{setting.config_hash[:6]}",
        tuple(setting.models.items()),
        setting.played,
        setting.broken,
        " · ".join(told),
        can_go_on,
    )


def priced_by(
    named: Callable[[str | None], str], serves: Callable[[str | None], bool]
) -> Callable[[SimulationOptions], bool]:
    """Whether a reply may cost something: an endpoint plays one of the roles."""

    def priced(options: SimulationOptions) -> bool:
        settled = replace(options, model=named(options.model))
        roles = ("assistant", "user", "judge")
        return any(serves(settled.model_of(role)) for role in roles)  # type: ignore[arg-type]

    return priced
