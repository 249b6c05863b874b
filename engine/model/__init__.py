"""What a language model can do, and the engines that do it."""
