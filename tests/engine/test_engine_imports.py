"""No two modules of the engine need each other."""

from __future__ import annotations

from support.import_graph import assert_no_cycle, import_graph


def test_modules_import_each_other_in_no_circle() -> None:
    assert_no_cycle(import_graph("engine"))
