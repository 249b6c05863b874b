"""The models on this machine, the hub and endpoints."""
