"""``python -m benchmarks.link_prediction``."""

import sys

from benchmarks.link_prediction.command import main

if __name__ == "__main__":
    sys.exit(main())
