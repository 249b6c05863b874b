"""The model process: wire protocol, the serving side that owns the model, the client side that survives it."""
