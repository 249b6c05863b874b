"""Queries that combine tables of a project for the services and stages: groups, merge queue, decision log, vectors."""
