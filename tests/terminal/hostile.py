"""A real project with hostile text wherever text from outside can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.base.conversation import Verdict
from engine.completeness.records import CurvePoint, RemainingTasks
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.stages import ImportStage
from engine.conversations.tables import conversations
from engine.jobs.runner import JobRunner
from engine.project import runs
from engine.project.project import Project
from engine.questions.tables import answers
from tests.engine.project.support import mark
from tests.terminal.payloads import NAME, PAYLOADS

CONFIG = "hostile"
