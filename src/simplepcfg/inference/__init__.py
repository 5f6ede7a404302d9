"""Trained runs: parsing, scoring, surprisal, sampling, inspection and ensembles."""
