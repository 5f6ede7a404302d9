"""CUDA graphs: `capture.py` records launches once, `cache.py` keeps graphs by shape, `calls.py` replays operations."""
