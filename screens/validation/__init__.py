"""The validation screen: every metric against the truth."""
