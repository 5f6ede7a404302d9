"""A trained run and what it can be asked: parsing, scoring, surprisal, sampling, inspection, ensembles."""
