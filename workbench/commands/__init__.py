"""The commands, one module for those of a subject. `workbench.command_table` names the function of each command: it
takes the parsed arguments, and returns a `CommandResult`, or the exit code where it printed its result itself."""
