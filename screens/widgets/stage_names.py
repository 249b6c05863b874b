"""The names of stages as the screens show them."""

_NAMES = {
    "complete": "scoring",
    "remaining": "the remaining tasks",
    "embed": "embedding",
    "summarise": "goal summaries",
    "cluster": "clustering",
    "label": "labelling",
    "propose": "merge proposals",
    "decide": "merge decisions",
    "assign": "assignment",
    "stability": "stability",
    "hold-out": "the held-out test",
    "trees": "response trees",
    "grow": "growing a tree",
    "simulate": "simulation",
    "tune": "tuning",
}


def stage_name(stage: str) -> str:
    """The name of a stage in plain words; a stage without one keeps its own."""
    return _NAMES.get(stage, stage)
