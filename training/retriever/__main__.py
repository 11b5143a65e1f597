"""``python -m training.retriever``."""

import sys

from training.retriever.run import main

if __name__ == "__main__":
    sys.exit(main())
