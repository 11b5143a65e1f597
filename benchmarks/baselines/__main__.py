"""``python -m benchmarks.baselines``."""

import sys

from benchmarks.baselines.runs import main

if __name__ == "__main__":
    sys.exit(main())
