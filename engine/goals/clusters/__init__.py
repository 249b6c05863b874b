"""Clusters of vectors: k-means, proposing k, neighbors, membership of later conversations, stability."""
