"""The seven ratings that RecLLMSim publishes, and what their labels and tags are called."""

from __future__ import annotations

from collections.abc import Mapping

RATING = "rating"
"""Name of the ratings among labels, and of their field in the data set."""

TAGS_OF_PEOPLE = "people"
"""First part of the tags that people's ratings become; those of a model begin with `rating`."""

RATINGS: Mapping[str, tuple[int, ...]] = {
    "Preference Alignment": (0, 1, 2),
    "Additional Preferences": (0, 1),
    "Role-Playing Completeness": (0, 1, 2),
    "Memorization": (0, 1),
    "Detail Level": (0, 1, 2),
    "Practical Usefulness": (0, 1, 2),
    "Diversity": (0, 1, 2),
}
"""Rating -> its values."""
