"""What the screens and commands of response trees are handed, and trees as text."""
