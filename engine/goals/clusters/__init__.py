"""From vectors to clusters: k-means, how many, neighbours, membership of later conversations, stability."""
