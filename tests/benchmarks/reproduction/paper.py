"""What Soroka et al. print in Tables 1 to 4, by data set."""

from __future__ import annotations

from collections.abc import Mapping

LMSYS, CODE, INSURANCE, WEBSHOP, SKILLS = (
    "LMSYS",
    "Code-Feedback",
    "Insurance",
    "WebShop",
    "SQL+OS+KB",
)

DATA_SETS = (LMSYS, CODE, INSURANCE, WEBSHOP, SKILLS)

TABLE_1: Mapping[str, tuple[tuple[str, int, str, bool], ...]] = {
    LMSYS: (("LMSYS-Chat-1M", 1000, "Unstructured human-LLM chats", False),),
    CODE: (("Code-Feedback", 1000, "Code generation and debugging", False),),
    INSURANCE: (("Insurance", 380, "Insurance underwriting", True),),
    WEBSHOP: (("WebShop", 351, "Web interaction for shopping", True),),
    SKILLS: (
        ("SQL", 537, "Formulating SQL queries", True),
        ("OS", 195, "Terminal interaction", True),
        ("KB", 311, "Q&A with knowledgebase", True),
    ),
}
"""Name, size, topic and tool use."""

TABLE_2: Mapping[str, tuple[tuple[str, float, float, float, float], ...]] = {
    LMSYS: (
        ("70B judge", 0.43, 0.77, 0.25, 0.38),
        ("8B, prompted", 0.74, 0.79, 0.85, 0.82),
    ),
    CODE: (
        ("70B judge", 0.53, 0.53, 0.46, 0.49),
        ("8B, prompted", 0.59, 0.56, 0.84, 0.67),
        ("8B, fine-tuned", 0.47, 0.71, 0.12, 0.21),
    ),
    INSURANCE: (
        ("70B judge", 0.95, 1.0, 0.91, 0.95),
        ("8B, prompted", 0.80, 1.0, 0.60, 0.75),
        ("8B, fine-tuned without end tag", 0.70, 0.66, 0.79, 0.72),
        ("8B, fine-tuned", 0.91, 0.94, 0.87, 0.91),
    ),
    WEBSHOP: (
        ("70B judge", 0.92, 1.0, 0.83, 0.91),
        ("8B, prompted", 0.66, 0.64, 0.71, 0.68),
        ("8B, fine-tuned", 0.92, 0.89, 1.0, 0.94),
    ),
    SKILLS: (
        ("70B judge", 0.97, 0.96, 0.97, 0.96),
        ("8B, prompted", 0.52, 0.51, 0.92, 0.66),
        ("8B, fine-tuned", 0.98, 0.99, 0.98, 0.99),
    ),
}
"""Evaluator, accuracy, precision, recall, F1."""

TABLE_3: Mapping[str, tuple[float, float]] = {
    LMSYS: (-0.11, -0.49),
    CODE: (-0.19, -0.46),
    INSURANCE: (-0.25, -0.10),
    WEBSHOP: (0.16, -0.19),
    SKILLS: (0.41, -0.06),
}
"""Correlation of the best log-probability with the length, and with the number of leaves."""

TABLE_4: Mapping[str, tuple[int, float, float, int, float]] = {
    LMSYS: (21, 0.95, 0.70, 41, 1.03),
    CODE: (20, 0.75, 0.65, 43, 0.79),
    INSURANCE: (6, 0.78, 0.51, 11, 0.89),
    WEBSHOP: (4, 1.06, 0.60, 8, 1.49),
    SKILLS: (18, 1.36, 0.87, 42, 0.91),
}
"""Clusters of the training part, distances of training and test part, clusters of all, distance of all."""
