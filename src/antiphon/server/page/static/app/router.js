// Route in the address after the #: `#/chat/abc` is the view `chat` with the path `abc`.
import { signal } from "../lib/ui.js";
import { VIEWS } from "./views.js";

export const route = signal(read());

function read() {
  const [, id = "", ...rest] = location.hash.split("/");
  const view = VIEWS.find((known) => known.id === id) ?? VIEWS[0];
  return { view, path: rest.map(decodeURIComponent).join("/") };
}

export function watchAddress() {
  window.addEventListener("hashchange", () => {
    const before = route.peek();
    const next = read();
    if (before.view !== next.view || before.path !== next.path) route.value = next;
  });
  route.value = read();
}
