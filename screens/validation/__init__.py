"""Every metric against what is known from elsewhere."""
