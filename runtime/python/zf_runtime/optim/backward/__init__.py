"""Steps parameters in place while backward runs, in the trainer."""
