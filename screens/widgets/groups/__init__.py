"""Text about groups of conversations that several screens show: groups, members, merge proposals, decisions."""
