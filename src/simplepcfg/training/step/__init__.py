"""One step of training: gradients, what other processes found, the update, and its counters."""
