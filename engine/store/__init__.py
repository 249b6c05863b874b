"""The project file: one SQLite file, one writer thread, read-only readers. The only SQL of the program.

Each aggregate is a module of plain functions that take a connection: `Project.reader()` for those that read,
the one handed to the function given to `Project.write()` for those that write. `ConversationStore` and
`TriageStore` bind them to a project for callers that must not see connections.

`project` opens the file, `file/` locks, backs up and repairs it, `migrations/` has its schema. `imports` writes
conversations, `conversations` reads them, `search/` finds them. `verdicts` and `triage` keep what people said of them,
`truth` what is known from elsewhere, `completeness/`, `trees` and `goals/` what was computed, `runs` with what.
"""
