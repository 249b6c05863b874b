"""The names of stages as the screens show them."""

_NAMES = {
    "import": "import",
    "complete": "scoring",
    "read": "scoring",
    "fit": "scoring",
    "remaining": "remaining tasks",
    "embed": "embedding",
    "summarise": "goal summaries",
    "cluster": "clustering",
    "label": "labeling",
    "propose": "merge proposals",
    "decide": "merge decisions",
    "name": "naming groups",
    "assign": "assignment",
    "stability": "stability",
    "hold-out": "the held-out test",
    "trees": "response trees",
    "grow": "growing a tree",
    "simulate": "simulation",
    "watch": "watching logs",
    "tune": "finding the model's fastest format",
}


def stage_name(stage: str) -> str:
    """The name of a stage in plain words; a stage without one keeps its own."""
    return _NAMES.get(stage, stage)


_SCORING = ("complete", "read", "fit", "remaining")
_CLUSTERING = ("embed", "summarise", "cluster", "label", "propose", "decide")


def work_of(stage: str) -> str:
    """The work that a stage is part of: `scoring`, `clustering`, or the stage itself where it is a work of its own."""
    return "scoring" if stage in _SCORING else "clustering" if stage in _CLUSTERING else stage
