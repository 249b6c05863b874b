"""Sharded conversations: an instruction given away one piece a turn, after Laban et al. 2025."""
