"""Names of clusters: phrases that many of their members share, and words that tell clusters apart."""
