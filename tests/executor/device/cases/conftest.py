"""Cases of the executor of a GPU: on a card where there is one, else where Triton's interpreter runs the kernels.

Without either, `test_device_interpreted.py` runs them in a process of its own.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from antiphon.ops.triton import available, is_interpreted
from support.kernels.interpreted import keep_language_patched

collect_ignore_glob = [] if find_spec("triton") and available() else ["test_*.py"]

#: Columns of a product from which the library multiplies, so that the head is not divided into many programs.
LIBRARY_COLUMNS = 256

if find_spec("triton") and is_interpreted():
    keep_language_patched()


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide products into few programs, which the interpreter runs one after the other."""
    if not is_interpreted():
        return
    from antiphon.ops.triton import product
    from antiphon.ops.triton.launch import FewRowsTile, ceil_power
    from antiphon.ops.triton.program import norm_lowering, product_lowering, tiles

    def row_tile(rows: int, depth: int, columns: int, gated: bool) -> tiles.RowTile | None:
        return None if columns >= LIBRARY_COLUMNS else tiles.row_tile(rows, depth, columns, gated)

    monkeypatch.setattr(product, "vector_tile", lambda _, depth, __: FewRowsTile(64, ceil_power(depth), 4))
    monkeypatch.setattr(product_lowering, "vector_tile", lambda depth, *_: tiles.VectorTile(64, ceil_power(depth), 4))
    monkeypatch.setattr(norm_lowering, "row_tile", row_tile)
