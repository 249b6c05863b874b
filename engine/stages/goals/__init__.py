"""Stages of goals: texts, vectors, clusters, labels, merges, stability and hold-out."""
