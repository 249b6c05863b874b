"""The domains of the sample conversations, one module each; facts stay consistent within a conversation."""
