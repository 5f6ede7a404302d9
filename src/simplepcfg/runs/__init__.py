"""Runs, for training and inference alike: configuration, folders, checkpoints, device and memory."""
