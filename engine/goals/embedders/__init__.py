"""From texts to vectors: TF-IDF, MiniLM, both, a GGUF model, an endpoint."""
