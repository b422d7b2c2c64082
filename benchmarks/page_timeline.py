"""Measure frame times of the web page's timeline with 5,000 steps: moved and zoomed, and following the present.

    python benchmarks/page_timeline.py [--model smollm2-135m] [--steps 5000] [--seconds 6]

Runs a real server and headless Chromium. The steps are passed to the page's own module; then the time between animation
frames is measured, first while wheel events zoom and keys move the window every frame, then at rest.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import sync_playwright

from antiphon.server.serving.setup.run_file import local_servers
from support.programs.server_process import antiphon_server

NAMES = ("chromium", "chromium-browser", "google-chrome")
FILL = """async (count) => {
  const names = performance.getEntriesByType("resource").map((one) => one.name);
  const feed = await import(names.find((name) => name.endsWith("/views/engine/feed.js")));
  const clock = feed.now();
  const model = feed.models.value.find((one) => one.role === "decoder").name;
  const row = (place) => {
    const start = clock - (count - place) * 0.002;
    const isMixed = place % 9 === 0;
    const contents = [4, +isMixed, 16 * isMixed, 4, 0];
    return [place, model, isMixed ? "mixed" : "decode", start, 1800, ...contents, 10, 20, 1700, 50, 20];
  };
  feed.add({ clock, steps: Array.from({ length: count }, (_, place) => row(place)) });
  return feed.known.steps.length;
}"""
FRAMES = """([seconds, isMoved]) => new Promise((resolve) => {
  const canvas = document.querySelector("canvas.timeline");
  const box = canvas.getBoundingClientRect();
  const times = [];
  let last = 0;
  const frame = (now) => {
    if (last) times.push(now - last);
    last = now;
    if (isMoved) {
      const deltaY = times.length % 40 < 20 ? -30 : 30;
      const place = { clientX: box.left + 300, clientY: box.top + 20 };
      canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, ...place, cancelable: true }));
      const key = times.length % 60 < 30 ? "ArrowLeft" : "ArrowRight";
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    }
    if (times.reduce((sum, time) => sum + time, 0) < 1000 * seconds) requestAnimationFrame(frame);
    else resolve(times);
  };
  requestAnimationFrame(frame);
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        raise SystemExit("this needs Chromium")
    with antiphon_server(arguments.model) as server, sync_playwright() as playwright:
        token = next(one.admin_token for one in local_servers() if one.pid == server.pid)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{server.url}/#admin_key={token}")
        page.goto(f"{server.url}/#/engine")
        page.locator(".feed-state", has_text="Live").wait_for()
        page.locator("canvas.timeline").scroll_into_view_if_needed()
        kept = page.evaluate(FILL, arguments.steps)
        print(f"{kept} steps, {arguments.seconds:g} s each")
        for name, is_moved in (("moved and zoomed", True), ("following", False)):
            if not is_moved:
                page.get_by_role("button", name="Now").click()
            times = sorted(page.evaluate(FRAMES, [arguments.seconds, is_moved]))
            percentile = times[int(0.95 * len(times))]
            print(f"{name:18} {len(times)} frames: median {statistics.median(times):.1f} ms, 95th {percentile:.1f} ms, "
                  f"longest {times[-1]:.1f} ms")  # fmt: skip
        browser.close()


if __name__ == "__main__":
    main()
