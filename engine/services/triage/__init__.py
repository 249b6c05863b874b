"""Triage: verdicts and what they say about the scores."""
