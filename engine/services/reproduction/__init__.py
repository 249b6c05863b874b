"""Tables 1 to 4 and Figures 3 to 6, 12 and 13 of Soroka et al. over several data sets."""
