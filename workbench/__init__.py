"""The shell of the program: command line, app, configuration. Holds almost no logic."""
