"""`python -m orchestrator.audit`."""

import sys

from orchestrator.audit.command import main

if __name__ == "__main__":
    sys.exit(main())
