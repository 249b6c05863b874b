"""Use cases on an open project, for the screens and the command line. Knows no terminal."""
