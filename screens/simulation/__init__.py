"""Simulations: conversations with known truth, played by models."""
