"""Tests of the tasks of sharded instructions and what scores them."""
