"""Configuration of a run: its keys, its files, and the reference page of the keys."""
