"""The text of a run: reading, curriculum, and initial word embeddings."""
