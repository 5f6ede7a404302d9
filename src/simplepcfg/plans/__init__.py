"""The paper's tables: their rows, the runs that fill them, and the results."""
