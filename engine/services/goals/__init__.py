"""What the screens and commands of goals are handed: clusters to look at, the desk, the jobs that make them."""
