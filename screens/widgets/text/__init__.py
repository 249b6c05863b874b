"""Widgets and pure functions that show and search text: transcripts, long texts, styles, line breaks."""
