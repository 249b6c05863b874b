"""Statistics with intervals: rankings, classification, partitions, agreement, resampling, tests."""
