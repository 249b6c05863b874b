"""From a file to its records: compression, archives, tables, texts with turns, JSON."""
