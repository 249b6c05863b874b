"""Names of the seven ratings of RecLLMSim as questions, and of what an export adds to conversations.

The ratings and their values are those of the data set RecLLMSim.
"""

from __future__ import annotations

from collections.abc import Mapping

RATING = "rating"
"""Name of the ratings among the labels of a simulated conversation, and of their field in the data set RecLLMSim."""

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

RATING_BY_QUESTION = {
    name.lower().replace(" ", "_").replace("-", "_"): name for name in ALLOWED_RATINGS
}
"""Name of the question on a rating (letters and underscores only, as Argilla requires) -> name of the rating."""

QUESTION_BY_RATING = {name: question for question, name in RATING_BY_QUESTION.items()}
"""Name of a rating -> name of the question on it."""

EXPORT_OBJECT = "workbench"
"""Name of the object beside the messages of an exported conversation that holds its score, verdict and the like.

When the file is imported again, no format reads the object as truth, and no model reads it.
"""
