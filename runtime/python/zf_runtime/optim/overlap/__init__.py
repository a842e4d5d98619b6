"""Steps beside the training, in the process of the runtime."""
