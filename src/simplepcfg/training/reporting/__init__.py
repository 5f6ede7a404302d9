"""Progress reports of training: lines, a live display, event logs, and snapshots of the model."""
