"""Frozen rows that pass between rooms. Data only: no SQL, no models."""
