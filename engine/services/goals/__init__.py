"""Use cases of goals: clusterings and their groups, the review of merges, runs, exports."""
