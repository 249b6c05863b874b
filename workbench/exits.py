"""Exit codes of the command line."""

DONE = 0
FAILED = 1
USAGE = 2
WITH_GAPS = 3
CANCELLED = 130
