"""Campaigns: the program under stress, for as long as one likes. CI runs a short slice of each;
what longer runs found is in `docs/lab/reliability.md`.
"""
