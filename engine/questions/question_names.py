"""Names of the questions that people are asked, and of their answers in files: verdicts, notes, and seven ratings.

The ratings and their values are those of the data set RecLLMSim.
"""

from __future__ import annotations

from collections.abc import Mapping

RATING = "rating"
"""Name of the ratings among the labels of a simulated conversation, and of their field in the data set RecLLMSim."""

HUMAN_TAG_PREFIX = "people"
"""First part of the tags that people's ratings become; the tags of a model's ratings begin with `RATING`."""

ALLOWED_RATINGS: Mapping[str, tuple[int, ...]] = {
    "Preference Alignment": (0, 1, 2),
    "Additional Preferences": (0, 1),
    "Role-Playing Completeness": (0, 1, 2),
    "Memorization": (0, 1),
    "Detail Level": (0, 1, 2),
    "Practical Usefulness": (0, 1, 2),
    "Diversity": (0, 1, 2),
}
"""Name of a rating -> the values that it can have."""

VERDICT, NOTE = "verdict", "note"
"""Names of the questions on the verdict and the note."""

RATING_BY_QUESTION = {
    name.lower().replace(" ", "_").replace("-", "_"): name for name in ALLOWED_RATINGS
}
"""Name of the question on a rating (letters and underscores only, as Argilla requires) -> name of the rating."""

EXPORT_OBJECT = "workbench"
"""Name of the object beside the messages of an exported conversation that holds its score, verdict and the like.

When the file is imported again, no format reads the object as truth, and no model reads it.
"""
