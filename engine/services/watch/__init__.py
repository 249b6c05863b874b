"""Watches logs that grow: imports, scores and assigns each new turn, and says what is worth a look."""
