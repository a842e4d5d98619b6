"""What both engines know of torch tensors."""
