"""The frame of all screens: title line, dialogs, command palette, help, keys, themes."""
