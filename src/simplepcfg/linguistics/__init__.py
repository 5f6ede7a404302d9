"""Tests of a language model by linguistic materials: minimal pairs, test suites of regions, reading times."""
