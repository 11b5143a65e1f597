"""``python -m training.generator``."""

import sys

from training.generator.run import main

if __name__ == "__main__":
    sys.exit(main())
