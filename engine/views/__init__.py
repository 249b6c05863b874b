"""What is read from a project to be shown or decided on. Writes nothing of its own."""
