"""Files of a run: checkpoints, weights, metrics, and their checksums."""
