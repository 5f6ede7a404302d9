"""FlashInside in log space as the paper describes it, for benchmarks."""
