"""FlashInside in log space as the paper describes it: the reference that benchmarks compare with."""
