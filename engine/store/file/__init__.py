"""The project file as a file: its lock, its writer thread, disk errors, backups and repair."""
