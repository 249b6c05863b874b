"""One generator for each kind of long work: reads the store, commits a batch, yields its progress."""
