// Bar of a device's memory: each model's weights and cache, and free memory.
import { bytes } from "../lib/format.js";
import { html } from "../lib/ui.js";

/** Return the class that colours what belongs to a model, by its place among the models' names. */
export const modelColour = (names, model) => (model ? `model-${(names.indexOf(model) % 6) + 1}` : "");

/**
 * Bar with a legend. `parts` are `{label, kind, bytes, model}` of kind `weights`, `kv`, `reserved` or `other`; the rest
 * is free. With `names`, a list beside the bar names the models in their colours, and the legend has the rest.
 */
export function MemoryBar({ title, total, parts, names: listed = null }) {
  const shown = parts.filter((part) => part.bytes > 0);
  const used = shown.reduce((sum, part) => sum + part.bytes, 0);
  const whole = Math.max(total, used);
  const free = whole - used;
  const names = listed ?? [...new Set(shown.map((part) => part.model).filter(Boolean))];
  const keyed = shown.filter((part) => !listed || !part.model);
  const style = (part) => ({ flexGrow: part.bytes / whole });
  const place = (part) => modelColour(names, part.model);
  return html`<div class="memory">
    <p class="memory-title"><b>${title}</b> <span class="hint number">${free > 0 ? `${bytes(used)} of ${bytes(whole)}` : bytes(used)}</span></p>
    <div class="memory-bar" aria-hidden="true">
      ${shown.map((part) => html`<span key=${part.label} class=${`part ${part.kind} ${place(part)}`} style=${style(part)}
        title=${`${part.label}: ${bytes(part.bytes)}`}></span>`)}
      ${free > 0 && html`<span class="part free" style=${{ flexGrow: free / whole }} title=${`Free: ${bytes(free)}`}></span>`}
    </div>
    <ul class="memory-keys">
      ${keyed.map((part) => html`<li key=${part.label}>
        <span class=${`swatch part ${part.kind} ${place(part)}`} aria-hidden="true"></span>${part.label}
        <span class="number">${bytes(part.bytes)}</span>
      </li>`)}
      ${free > 0 && html`<li><span class="swatch part free" aria-hidden="true"></span>Free <span class="number">${bytes(free)}</span></li>`}
    </ul>
  </div>`;
}
