"""What a run writes and reads back: checkpoints, weights, metrics, and their checksums."""
