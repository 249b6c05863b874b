"""Making shards from a full instruction: proposed by a model, checked by rules, approved by a person."""
