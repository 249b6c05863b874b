"""Simulation of conversations: requests, stages that play them, tables of results, transcripts, drafts of shards."""
