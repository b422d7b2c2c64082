"""Listeners' ratings of a sound as estimated by DNSMOS P.835 (Reddy et al., 2022), from the package `speechmos`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.dependencies import import_dependency, install_hint
from antiphon.errors import AudioError, MissingDependencyError

Floats = NDArray[np.float32]

RATE = 16_000
WINDOW_SECONDS = 9.01
WINDOW = int(WINDOW_SECONDS * RATE)
#: Polynomials from the network's outputs to opinion scores, as published with it: signal, background, overall.
CURVES = (
    (-0.08397278, 1.22083953, 0.0052439),
    (-0.13166888, 1.60915514, -0.39604546),
    (-0.06766283, 1.11546468, 0.04602535),
)


@dataclass(frozen=True)
class Opinion:
    """Opinion scores from 1 (bad) to 5 (excellent)."""

    signal: float
    background: float
    overall: float


def dnsmos(sound: Floats) -> Opinion:
    """Return the mean scores of windows of 9 s, one per second. `sound` is at 16 kHz; a shorter one is repeated."""
    if not len(sound):
        raise AudioError("a sound without samples cannot be rated")
    while len(sound) < WINDOW:
        sound = np.concatenate([sound, sound])
    run = _network()
    count = int(len(sound) // RATE - WINDOW_SECONDS) + 1
    windows = [sound[start * RATE : start * RATE + WINDOW] for start in range(count)]
    raw = np.array([run(window) for window in windows if len(window) == WINDOW], dtype=np.float64)  # [windows, 3]
    return Opinion(*(float(np.polyval(curve, own).mean()) for curve, own in zip(CURVES, raw.T, strict=True)))


@cache
def _network() -> Callable[[Floats], Any]:
    runtime = import_dependency("onnxruntime", "DNSMOS")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # sounds are rated in parallel, and the engine uses the cores too
    session = runtime.InferenceSession(str(_weights()), options, providers=["CPUExecutionProvider"])
    return lambda window: session.run(None, {"input_1": window[None].astype(np.float32)})[0][0]


def _weights() -> Path:
    """Return the network's file. The package is not imported, since it needs more packages than its networks do."""
    found = find_spec("speechmos")
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(
            f"DNSMOS needs speechmos, which is not installed on this machine; {install_hint('speechmos')}"
        )
    return Path(found.submodule_search_locations[0]) / "dnsmos_models" / "sig_bak_ovr.onnx"
