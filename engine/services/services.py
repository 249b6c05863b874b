"""What the screens are handed: the open project and the services that read and change it.

Methods of services may be called from any thread. Those whose docstring begins with *Quick* read by key and are fit
for the thread that draws; the others belong in a thread worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.services.comparison.service import ComparisonService
from engine.services.exports import ExportFiles
from engine.services.goals.service import GoalService
from engine.services.jobs import JobService
from engine.services.models.service import ModelService
from engine.services.network import NetworkService
from engine.services.scoring.sets import ScoreSets
from engine.services.simulation.service import SimulationService
from engine.services.training.service import TrainingService
from engine.services.trees.service import TreeService
from engine.services.triage.calibration import CalibrationService
from engine.services.triage.example_probes import ExampleProbeService
from engine.services.validation.service import ValidationService
from engine.store.conversations import ConversationStore
from engine.store.saved import SavedStore
from engine.store.triage import TriageStore

__all__ = ["ConversationStore", "ProjectInfo", "SavedStore", "Services", "TriageStore"]


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    """Name, path, and why the project cannot be written; `read_only` is None when it can."""

    name: str
    path: str
    read_only: str | None


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a screen may use."""

    project: ProjectInfo
    conversations: ConversationStore
    triage: TriageStore
    jobs: JobService
    score_sets: ScoreSets
    saved: SavedStore
    exports: ExportFiles
    calibration: CalibrationService
    comparison: ComparisonService
    example_probes: ExampleProbeService
    trees: TreeService
    goals: GoalService
    training: TrainingService
    network: NetworkService
    models: ModelService
    validation: ValidationService
    simulations: SimulationService
