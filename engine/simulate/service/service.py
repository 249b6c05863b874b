"""Use cases of the simulation screens: estimate and start runs, and read results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from engine.base.errors import UsageError
from engine.base.line_files import new_file, write_file
from engine.base.report_table import Cell, ReportRow
from engine.jobs.runner import JobRunner
from engine.project import settings
from engine.project.project import Project
from engine.project.records import Estimate
from engine.simulate.records import PlaySetting, SetResults, TranscriptLine
from engine.simulate.request import (
    Kind,
    SimulationOffers,
    SimulationRequest,
    as_request,
    request_as_json,
)
from engine.simulate.service.forms import KIND as FORMS_KIND
from engine.simulate.service.forms import forms_simulation
from engine.simulate.service.result_tables import form_model_table, item_of, tables_of
from engine.simulate.service.sharded import sharded_simulation
from engine.simulate.service.simulations import ProjectSimulations, Simulation, recsim_simulation

SETTING = "simulations"
"""Setting: the request of the simulation that a screen started last."""

_SIMULATIONS: Mapping[Kind, Callable[[ProjectSimulations, SimulationRequest], Simulation]] = {
    "sharded": sharded_simulation,
    "forms": forms_simulation,
    "recsim": recsim_simulation,
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

    # Requests and runs

    def offers(self) -> SimulationOffers:
        """Returns the choices for a new request."""
        with self._project.reading() as conn:
            stored = settings.get(conn, SETTING, None)
        try:
            last = None if stored is None else as_request(stored)
        except UsageError:
            last = None
        return SimulationOffers(tuple(self._simulations.model_names()), last)

    def estimate(self, request: SimulationRequest) -> Estimate:
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
        job = self._runner.start(self._simulation_of(request).stages)
        self._project.write(lambda conn: settings.put(conn, SETTING, request_as_json(request)))
        return job

    def _simulation_of(self, request: SimulationRequest) -> Simulation:
        """Returns the simulation that a request asks for."""
        return _SIMULATIONS[request.kind](self._simulations, request)

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


def _values(row: ReportRow) -> list[Cell]:
    """Returns the cells of a row, counts as floats as in earlier exports."""
    return [float(cell) if isinstance(cell, int) else cell for cell in row.cells]
