"""No module of the runtime imports itself through others, under `TYPE_CHECKING` either."""

from __future__ import annotations

from support.import_graph import assert_no_cycle, import_graph


def test_no_module_imports_itself_through_others() -> None:
    assert_no_cycle(import_graph("runtime"))
