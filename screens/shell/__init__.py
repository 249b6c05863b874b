"""What all screens share: frame, dialogs, palette, help, keys, themes."""
