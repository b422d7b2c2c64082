"""Tables of the figures of `engine_bench`."""

from __future__ import annotations

from typing import Any

from antiphon.aligned import aligned

OFF = "off"
_LATENCY = (
    ("BATCH", "batch", "{:d}"),
    ("FIRST TOKEN MS", "first_token_ms", "{:,.1f}"),
    ("DEVICE MS/STEP", "device_ms", "{:,.3f}"),
    ("STEP MS", "step_ms", "{:,.3f}"),
    ("DELIVERED MS/STEP", "delivered_ms", "{:,.3f}"),
    ("TOK/S", "tokens_per_second", "{:,.1f}"),
    ("WEIGHTS GB/S", "weight_gigabytes_per_second", "{:,.1f}"),
)
_THROUGHPUT = (
    ("PROMPTS", "prompts", "{:d}"),
    ("SECONDS", "seconds", "{:,.2f}"),
    ("OUTPUT TOK/S", "output_tokens_per_second", "{:,.1f}"),
    ("TOTAL TOK/S", "total_tokens_per_second", "{:,.1f}"),
    ("PREFILL TOK/S", "prefill_tokens_per_second", "{:,.1f}"),
    ("STEPS", "steps", "{:d}"),
    ("DEVICE SHARE", "device_share", "{:.1%}"),
)
#: Further columns of the throughput table, if tokens were drafted.
_DRAFTS = (("DRAFTED", "drafted_tokens", "{:,d}"), ("ACCEPTED", "accepted_tokens", "{:,d}"))


def engine_columns(result: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return heading, figure's name and format of each column."""
    if result["kind"] == "latency":
        return _LATENCY
    has_drafts = any(figures.get("drafted_tokens") for figures in result["figures"])
    return _THROUGHPUT + _DRAFTS if has_drafts else _THROUGHPUT


def engine_heading(result: dict[str, Any]) -> str:
    workload = result["workload"]
    mode = ", batch-invariant" if workload["batch_invariant"] else ""
    mode += f", speculating ({speculate})" if (speculate := workload.get("speculate", OFF)) != OFF else ""
    return (
        f"{workload['input_tokens']} tokens in, {workload['output_tokens']} out, temperature "
        f"{workload['temperature']:g}; {result['backend']} backend{mode}; {result['weights']}"
    )


def engine_table(result: dict[str, Any]) -> str:
    """Format a result of `bench_latency` or `bench_throughput` as a table."""
    columns = engine_columns(result)
    rows = [[name for name, _, _ in columns]]
    rows += [[form.format(figures[key]) for _, key, form in columns] for figures in result["figures"]]
    return "\n".join([f"{result['model']}: {engine_heading(result)}", "", *aligned(rows)])
