"""A local page and a JSON interface to trained runs; needs the extra `serve` (starlette, uvicorn)."""
