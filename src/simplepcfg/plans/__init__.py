"""Plans of runs to tables: the paper's tables, and the engine that does the jobs of experiments, too."""
