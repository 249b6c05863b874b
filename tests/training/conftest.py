"""Skips tests whose libraries, `pip install conversation-workbench[train]`, are not installed."""

from __future__ import annotations

import importlib.util

NEED_LIBRARIES = [
    "test_gguf_adapter.py", "test_runs.py", "test_checkpoints.py", "test_examples.py", "test_tokens.py",
    "test_microbatches.py", "test_validation.py",
]  # fmt: skip

collect_ignore = [] if importlib.util.find_spec("peft") else NEED_LIBRARIES
