// Media queries as signals, so that components are rendered again when a query's result changes.
import { signal } from "./ui.js";

export function media(query) {
  const list = matchMedia(query);
  const matches = signal(list.matches);
  list.addEventListener("change", () => (matches.value = list.matches));
  return matches;
}
