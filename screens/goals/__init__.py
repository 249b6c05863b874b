"""The screens of goals: groups of conversations with their members and drift."""
