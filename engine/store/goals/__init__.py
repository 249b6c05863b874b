"""What the project file keeps of goals: texts, vectors, clusterings, groups, answers and decisions."""
