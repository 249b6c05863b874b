"""Answers the requests of a `ModelClient` by HTTP endpoints, as far as these can answer exactly."""
