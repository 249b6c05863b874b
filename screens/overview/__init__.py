"""The overview screen: what is in the project, and what to do next."""
