"""``python -m training.shipped.reader``."""

import sys

from training.shipped.reader.make import main

if __name__ == "__main__":
    sys.exit(main())
