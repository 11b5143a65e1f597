"""What the benchmarks share: folders, plots, reports, the cost of a process."""
