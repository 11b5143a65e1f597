"""``python -m benchmarks.experiments``."""

import sys

from benchmarks.experiments.command import main

if __name__ == "__main__":
    sys.exit(main())
