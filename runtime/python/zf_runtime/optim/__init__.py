"""The torch optimizers, and the engines that step them."""
