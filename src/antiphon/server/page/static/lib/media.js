// Media queries as signals, so that what depends on one is rendered again when it changes.
import { signal } from "./ui.js";

export function media(query) {
  const list = matchMedia(query);
  const matches = signal(list.matches);
  list.addEventListener("change", () => (matches.value = list.matches));
  return matches;
}
