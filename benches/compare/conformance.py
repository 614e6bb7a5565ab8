"""Makes the harness of tools/conformance importable, whose brokers and raw protocol this shares; to be imported before it."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
# Behind ours: there are programs of the same names there.
sys.path.append(str(REPOSITORY / "tools" / "conformance"))
