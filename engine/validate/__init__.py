"""Pure: what unsupervised figures say about truth. Given numbers and labels it computes; it knows no project file."""
