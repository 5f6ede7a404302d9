"""The text of a run: reading it, ordering it by length, and initial word embeddings from it."""
