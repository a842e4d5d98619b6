"""Steps parameters in place, in the trainer."""
