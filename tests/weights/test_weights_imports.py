"""The sub-packages of weights import one way: catalog and formats apart from each other, dequantize below both."""

from __future__ import annotations

from support.source.import_graph import assert_no_cycle, import_graph

GRAPH = import_graph("weights")
PREFIX = "antiphon.weights."


def imported_by(package: str) -> set[str]:
    """The modules outside a sub-package that its modules import, without the common prefix."""
    inside = f"{PREFIX}{package}."
    found = {other for name, imports in GRAPH.items() if name.startswith(inside) for other in imports}
    return {name.removeprefix(PREFIX) for name in found if not name.startswith(inside)}


def test_no_module_imports_itself_through_others() -> None:
    assert_no_cycle(GRAPH)


def test_catalog_reads_no_weights() -> None:
    assert imported_by("catalog") <= {"json_object"}


def test_formats_do_not_know_the_catalog() -> None:
    assert not any(name.startswith("catalog.") for name in imported_by("formats"))


def test_dequantize_is_below_all() -> None:
    assert imported_by("dequantize") <= {"types"}


def test_modules_beside_them_import_no_format_and_no_catalog() -> None:
    beside = {name for name in GRAPH if name.count(".") == 2}
    imported = {other.removeprefix(PREFIX).split(".")[0] for name in beside for other in GRAPH[name]}
    assert not imported & {"formats", "catalog"}
