"""What differs between two parts of a project, two projects, two clusterings, or the values of a field."""
