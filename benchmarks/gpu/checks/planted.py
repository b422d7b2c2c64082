"""Plant a fault in an engine process: a prompt that begins with PLANTED makes a kernel write out of bounds.

python benchmarks/gpu/checks/planted.py cuda FOLDER     # prints an embedded engine's answers and errors as JSON
"""

from __future__ import annotations

import json
import sys

from antiphon.engine.core import EngineCore
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import DeviceError, EngineError

#: First token of prompts that break the device.
PLANTED = 201
INNOCENT = [5, 6, 7]


def break_device(device: str) -> None:
    """Break a card with a kernel that writes out of bounds, which raises only later; on the CPU, raise DeviceError."""
    if not device.startswith("cuda"):
        raise DeviceError(f"{device} failed: planted")
    from far_write import write_out_of_bounds

    write_out_of_bounds(device)


def install() -> None:
    """Make the first planted prompt break the device on the engine's thread, before a step."""
    step, broken = EngineCore.step, set[str]()

    def faulty(self: EngineCore) -> bool:
        for slot in self.slots.values():
            is_planted = any(request.prompt[0] == PLANTED for request in slot.scheduler.requests())
            if is_planted and slot.device not in broken:
                broken.add(slot.device)
                break_device(slot.device)
        return step(self)

    EngineCore.step = faulty  # type: ignore[method-assign]


def main() -> None:
    from antiphon.runtime.frontend.engine import Engine

    device, folder = sys.argv[1:]
    install()
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    said: dict[str, str] = {}
    engine = Engine(folder, device=device, kv_bytes=64 << 20)
    said["before"] = engine.generate([INNOCENT], params)[0].text
    for name, prompt in (("planted", [PLANTED]), ("after", INNOCENT)):
        try:
            said[name] = engine.generate([prompt], params)[0].text
        except EngineError as error:
            said[name] = f"EngineError: {error}"
    print(json.dumps(said), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
