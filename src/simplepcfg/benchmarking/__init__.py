"""How fast and how large the operations are on the machine at hand; needs torch alone, and triton on a GPU."""
