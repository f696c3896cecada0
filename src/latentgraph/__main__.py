"""`python -m latentgraph` is the command `latentgraph`."""

import sys

from latentgraph.cli import main

sys.exit(main())
