"""The screens of triage and calibration."""
