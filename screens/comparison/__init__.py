"""The comparison screen: how two parts of a project differ, or the values of a field."""
