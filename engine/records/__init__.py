"""Frozen dataclasses that store, services and screens exchange. They hold data only: no SQL, no models."""
