"""Embedders, which make vectors of texts: TF-IDF, MiniLM, both concatenated, a GGUF model, an endpoint."""
