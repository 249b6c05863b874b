"""Tests of engine.simulate.recsim."""
