"""Triage and calibration."""
