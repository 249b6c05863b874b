"""What commands and screens of simulations are handed: prompts, stages, results and transcripts."""
