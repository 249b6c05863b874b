"""Questions to a language model about clusters, and the parsing of its replies."""
