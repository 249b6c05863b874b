"""What a language model is asked about clusters, and what is read from its replies."""
