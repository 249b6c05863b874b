"""Use cases of the simulation screens: estimate and start runs, read results, review shards, fill forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from engine.base.errors import UsageError
from engine.base.line_files import new_file, write_file
from engine.base.report_table import Cell, ReportRow
from engine.jobs.runner import JobRunner
from engine.project import settings
from engine.project.project import Project
from engine.simulate.live import LivePlays
from engine.simulate.records import LivePlay, PlayEstimate, PlaySetting, SetResults, TranscriptLine
from engine.simulate.request import (
    Kind,
    SimulationOffers,
    SimulationRequest,
    as_request,
    request_as_json,
)
from engine.simulate.service.forms import KIND as FORMS_KIND
from engine.simulate.service.forms import forms_simulation
from engine.simulate.service.recsim import recsim_simulation
from engine.simulate.service.result_tables import form_model_table, item_of, tables_of
from engine.simulate.service.sharded import (
    MAKING,
    DraftsFile,
    making_simulation,
    opened_drafts,
    sharded_simulation,
)
from engine.simulate.service.simulations import ProjectSimulations, Simulation

SETTING = "simulations"
"""Setting: what simulations were asked for: the last one, and one for each set that a screen started."""

_SIMULATIONS: Mapping[Kind, Callable[[ProjectSimulations, SimulationRequest], Simulation]] = {
    "sharded": sharded_simulation,
    "forms": forms_simulation,
    "recsim": recsim_simulation,
    "shards": making_simulation,
}
"""Makes the simulation of a request, by kind."""


class SimulationService:
    """Simulations of one project: runs them in the background and reads what was played."""

    def __init__(
        self,
        project: Project,
        simulations: ProjectSimulations,
        runner: JobRunner,
    ) -> None:
        self._project, self._simulations, self._runner = project, simulations, runner
        self._live = LivePlays()

    # Requests and runs

    def offers(self) -> SimulationOffers:
        """Returns the choices for a new request."""
        requests = self._stored_requests()
        try:
            last = as_request(requests["last"]) if "last" in requests else None
        except UsageError:
            last = None
        return SimulationOffers(tuple(self._simulations.model_names()), last)

    def estimate(self, request: SimulationRequest) -> PlayEstimate:
        """Returns how many plays are left, and the time and replies they take by the latest run of the kind with
        these models.

        Raises:
            UsageError: The request cannot be played.
        """
        return self._simulation_of(request).play.estimate()

    def start(self, request: SimulationRequest) -> int:
        """Starts the plays that are left in the background and stores the request; returns the id of the job.

        Raises:
            UsageError: The request cannot be played.
        """
        return self._begin(request, self._simulation_of(request))

    def go_on(self, config_hash: str) -> int:
        """Starts the rest of a set in the background; returns the id of the job.

        Raises:
            UsageError: The request of the set is not stored, or it would give another set now.
        """
        requests = self._stored_requests().get("sets", {})
        if config_hash not in requests:
            raise UsageError(
                "It is not known here what was asked for.",
                "The command that started it goes on with it; a form that you were filling, F in Simulation.",
            )
        request = as_request(requests[config_hash])
        simulation = self._simulation_of(request)
        if simulation.play.config_hash != config_hash:
            raise UsageError(
                "A prompt, a model or the program has changed since, so this would be another set.",
                "Start a new simulation.",
            )
        return self._begin(request, simulation)

    def _simulation_of(self, request: SimulationRequest) -> Simulation:
        """Returns the simulation that a request asks for."""
        return _SIMULATIONS[request.kind](self._simulations, request)

    def _begin(self, request: SimulationRequest, simulation: Simulation) -> int:
        """Starts a simulation in the background and stores its request; returns the id of the job."""
        simulation.play.on_reply = partial(self._live.add, simulation)
        job = self._runner.start(simulation.stages)
        requests = self._stored_requests()
        requests["last"] = request_as_json(request)
        if not simulation.before:
            # Tuning may change the name of the model, and with it the config hash of the set.
            requests.setdefault("sets", {})[simulation.play.config_hash] = request_as_json(request)
        self._project.write(lambda conn: settings.put(conn, SETTING, requests))
        return job

    def _stored_requests(self) -> dict[str, Any]:
        """Returns the `last` request, and under `sets` that of each set by its config hash."""
        with self._project.reading() as conn:
            return dict(settings.get(conn, SETTING, {}))

    # What was played

    def sets(self) -> list[PlaySetting]:
        """Returns the settings of all sets of plays, the newest first."""
        return self._simulations.settings()[::-1]

    def results(self, config_hash: str) -> SetResults:
        """Returns the tables and the plays of a set."""
        rows = self._simulations.rows(config_hash)
        kind = rows[0].kind if rows else ""
        tables = tables_of(kind, rows)
        if kind == FORMS_KIND and tables:
            tables = (*tables, form_model_table(self._simulations.form_runs()))
        return SetResults(tables, tuple(item_of(row) for row in rows))

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        """Returns the model calls of a play with their replies, in order."""
        return self._simulations.transcript(play_id)

    def export(self, config_hash: str, path: str) -> None:
        """Writes the tables and plays of a set as JSON to a new file.

        Raises:
            ProjectError: `path` exists or cannot be written.
        """
        place = new_file(path)
        rows = self._simulations.rows(config_hash)
        results = self.results(config_hash)
        tables = [
            {
                "table": table.title,
                "rows": [
                    dict(zip((column.title for column in table.columns), _values(row), strict=True))
                    for row in table.rows
                ],
            }
            for table in results.tables
        ]
        exported = {"config": config_hash, "tables": tables, "plays": [asdict(row) for row in rows]}
        write_file([exported], place, "jsonl")

    # Live

    def live(self) -> list[LivePlay]:
        """Returns the plays of the current run with their newest replies; the one with the latest reply is first."""
        return self._live.newest()

    # Shards

    def open_drafts(self, path: str) -> DraftsFile:
        """Returns the drafts of a file; a new file is written with all drafts that this project proposed.

        Raises:
            UsageError: The file holds no drafts, or there is neither a file nor a proposal.
            ProjectError: The file cannot be written.
        """
        return opened_drafts(path, lambda: self._simulations.rows_of(MAKING))


def _values(row: ReportRow) -> list[Cell]:
    """Returns the cells of a row, counts as floats as in earlier exports."""
    return [float(cell) if isinstance(cell, int) else cell for cell in row.cells]
