"""Check of the configured models before anything starts: at least one must fit in memory."""

from __future__ import annotations

from antiphon.errors import AntiphonError, MemoryBudgetError
from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES, listed_weight_bytes, weight_file_bytes
from antiphon.server.serving.setup.config import name_of
from antiphon.weights.catalog.resolve import resolve


def check_models_fit(references: list[str], memory: int, kv: int, kv_follows: bool) -> None:
    """Raise `MemoryBudgetError` if none of the models can ever fit.

    `kv_follows` means that the cache grows with the budget. A model whose size is unknown before its download may fit.
    """
    sizes = {reference: known_weight_bytes(reference) for reference in references}
    known = {reference: size for reference, size in sizes.items() if size is not None}
    if not known or len(known) < len(sizes) or min(known.values()) + kv <= memory:
        return

    def needed(size: int) -> int:
        """Return the smallest budget in megabytes for weights of this size, rounded up."""
        total = size + kv
        if kv_follows:
            total = min(size + DEFAULT_KV_BYTES, size * 4 // 3 + 4)
        return -(-total // (1 << 20))

    each = ", ".join(f"{name_of(reference)} needs {needed(size):,} MB" for reference, size in known.items())
    together = f" (all together {needed(sum(known.values())):,} MB)" if len(known) > 1 else ""
    raise MemoryBudgetError(
        f"no model fits in the memory budget of {memory >> 20:,} MB, of which {kv / (1 << 20):,.0f} MB are for the KV "
        f"cache: {each}{together}; raise --memory"
    )


def known_weight_bytes(reference: str) -> int | None:
    """Return the bytes of a model's weights, or None if neither the catalog nor local files list them."""
    listed = listed_weight_bytes(reference)
    if listed is not None or reference.startswith("hub:"):
        return listed
    try:
        return weight_file_bytes(resolve(reference, offline=True))
    except (AntiphonError, OSError):
        return None  # loading the model reports the cause
