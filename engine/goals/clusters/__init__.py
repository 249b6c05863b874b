"""Clusters of vectors: k-means, proposing k, neighbors, granularity, themes, membership of later ones, stability."""
