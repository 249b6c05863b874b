"""Goal clustering in the words and the order of Soroka et al., for comparison with what this program does otherwise."""
