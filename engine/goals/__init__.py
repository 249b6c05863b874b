"""What users wanted: vectors, clusters, questions on them and decisions about them. Knows no SQL and no process."""
