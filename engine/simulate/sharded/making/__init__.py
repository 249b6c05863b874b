"""Makes shards from a full instruction: a model proposes them, rules check them, and a person approves them."""
