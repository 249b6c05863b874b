"""The entry points of the program: command line, app, preferences. Holds almost no logic."""
