"""The project file as a file: its lock and its writing thread, errors of the disk, backups and repair."""
