"""One step of training: gradients, their sum over processes, the optimiser update, and counters."""
