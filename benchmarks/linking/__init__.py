"""Questions in other words than the benchmark's: what the linker understands of them."""
