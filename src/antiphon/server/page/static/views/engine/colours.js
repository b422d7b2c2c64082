// Colours for canvases and plots, read from the style sheet, and again when the theme changes.
import { isDark } from "../../app/theme.js";
import { effect, signal } from "../../lib/ui.js";

const NAMES = ["ground", "surface", "sunken", "line", "line-strong", "text", "text-soft", "accent", "accent-soft", "warn", "bad"];

/** Colours by name, the six colours of `series`, and the font. */
export const colours = signal(read());

function read() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = Object.fromEntries(NAMES.map((name) => [name, value(name)]));
  return { ...found, series: [1, 2, 3, 4, 5, 6].map((place) => value(`series-${place}`)), font: value("font") };
}

effect(() => {
  isDark();
  queueMicrotask(() => (colours.value = read())); // after the theme's attribute is set
});

/** Kinds of steps: name, label, and index of the colour in `series`. */
export const KINDS = [
  ["decode", "Decode", 0],
  ["prefill", "Prefill", 1],
  ["mixed", "Prefill and decode", 2],
  ["encoder", "Encoder", 3],
  ["synthesis", "Synthesis", 4],
  ["embedding", "Embedding", 5],
  ["detection", "Detection", 5],
];

/** Kind of the steps of a task without generated tokens. */
export const TASK_KINDS = { encode: "encoder", synthesize: "synthesis", embed: "embedding", detect: "detection" };

const PLACES = Object.fromEntries(KINDS.map(([kind, , place]) => [kind, place]));

export const kindColour = (kind) => colours.value.series[PLACES[kind] ?? 0];

/** Return a request's colour, derived from its id. */
export function requestColour(id) {
  let hash = 0;
  for (let place = 0; place < id.length; place += 1) hash = (hash * 31 + id.charCodeAt(place)) | 0;
  return `hsl(${(((hash % 360) + 360) * 47) % 360} 60% 52%)`;
}
