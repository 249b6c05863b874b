"""The screen that watches logs as they grow."""
