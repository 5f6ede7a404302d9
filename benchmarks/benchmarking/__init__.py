"""Benchmarks of speed and memory of the operations; they need torch, and triton on a GPU."""
