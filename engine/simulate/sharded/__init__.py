"""Sharded simulation: a user reveals an instruction one piece (shard) a turn.

After Laban et al., "LLMs Get Lost In Multi-Turn Conversation" (2025).
"""
