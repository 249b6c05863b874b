"""Goals of users: what conversations are about, as groups that a person can change."""
