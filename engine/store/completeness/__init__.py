"""What the project file keeps of completeness: scores and curves, hidden states, divergences, probes, requests."""
