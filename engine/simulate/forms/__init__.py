"""Filling forms by dialogue (Hakimov, Weiser, Schlangen): modules of one prompt each, or one prompt for all."""
