"""What people are asked, and the names of their answers in files: verdicts, notes, the seven ratings of RecLLMSim."""

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

VERDICT, NOTE = "verdict", "note"
"""Names of the two questions."""

RATING_NAMES = {name.lower().replace(" ", "_").replace("-", "_"): name for name in RATINGS}
"""Names of the questions on ratings (letters and underscores only, as Argilla asks), with the ratings."""

KNOWN = "workbench"
"""Name of the object with what a project knows, beside the messages of an exported conversation. No format reads that
as truth, and no model reads metadata."""
