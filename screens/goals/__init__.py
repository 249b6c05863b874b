"""The screens of goals: groups of conversations with their members, map and drift."""
