"""What is claimed of speed, measured: ``python -m tests.benchmarks.speed``."""
