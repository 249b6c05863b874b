"""The project file: one SQLite file, one writer thread, read-only readers. The only SQL of the program.

Each aggregate is a module of plain functions that take a connection: `Project.reader()` for those that read,
the one handed to the function given to `Project.write()` for those that write. `ConversationStore` and
`TriageStore` bind them to a project for callers that must not see connections.
"""
