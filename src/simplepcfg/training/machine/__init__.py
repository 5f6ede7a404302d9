"""The machine that a run trains on: device, memory, resource errors and signals."""
