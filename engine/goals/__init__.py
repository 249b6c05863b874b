"""Goals of users: embedders, clusters, the questions that a model is asked, and merge decisions. Without SQL and
without processes."""
