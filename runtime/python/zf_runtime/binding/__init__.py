"""bind(): which rank this process is, where its home is, and its threads."""
