"""``python -m training.shipped.encoder``."""

import sys

from training.shipped.encoder.make import main

if __name__ == "__main__":
    sys.exit(main())
