# SPDX-License-Identifier: Apache-2.0
"""The folder of a script that writes models. Without torch, the script writes only a file `skipped`."""
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
try:
    import torch  # noqa: F401
except ImportError:
    (folder / "skipped").write_text("this Python has no torch\n")
    sys.exit(0)
