"""What can be done with the response trees of a project: runs, reading, comparing, export."""
