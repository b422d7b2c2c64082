"""Cases of the executor of a GPU: on a card where there is one, else where Triton's interpreter runs the kernels.

Without either, `test_device_interpreted.py` runs them in a process of its own.
"""

from __future__ import annotations

from importlib.util import find_spec

from antiphon.ops.triton import available

collect_ignore_glob = [] if find_spec("triton") and available() else ["test_*.py"]
