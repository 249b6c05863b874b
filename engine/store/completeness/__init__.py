"""What the project file has on completeness: scores and curves, hidden states, divergences, probes, requests."""
