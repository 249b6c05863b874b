"""Clusters of vectors: k-means, proposing k, neighbours, membership of later conversations, stability."""
