"""The directory of a training run, which the trainer and the program share. Standard library only."""
