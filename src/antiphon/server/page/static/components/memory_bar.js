// Bar of a device's memory: each model's weights and cache, and free memory.
import { bytes } from "../lib/format.js";
import { html } from "../lib/ui.js";

/** `parts` are `{label, kind, bytes, model}` of kind `weights`, `kv`, `reserved` or `other`; the rest is free. */
export function MemoryBar({ title, total, parts }) {
  const shown = parts.filter((part) => part.bytes > 0);
  const used = shown.reduce((sum, part) => sum + part.bytes, 0);
  const whole = Math.max(total, used);
  const free = whole - used;
  const names = [...new Set(shown.map((part) => part.model).filter(Boolean))];
  const style = (part) => ({ flexGrow: part.bytes / whole });
  const place = (part) => (part.model ? `model-${(names.indexOf(part.model) % 6) + 1}` : "");
  return html`<div class="memory">
    <p class="memory-title"><b>${title}</b> <span class="hint number">${free > 0 ? `${bytes(used)} of ${bytes(whole)}` : bytes(used)}</span></p>
    <div class="memory-bar" aria-hidden="true">
      ${shown.map((part) => html`<span key=${part.label} class=${`part ${part.kind} ${place(part)}`} style=${style(part)}
        title=${`${part.label}: ${bytes(part.bytes)}`}></span>`)}
      ${free > 0 && html`<span class="part free" style=${{ flexGrow: free / whole }} title=${`Free: ${bytes(free)}`}></span>`}
    </div>
    <ul class="memory-keys">
      ${shown.map((part) => html`<li key=${part.label}>
        <span class=${`swatch part ${part.kind} ${place(part)}`} aria-hidden="true"></span>${part.label}
        <span class="number">${bytes(part.bytes)}</span>
      </li>`)}
      ${free > 0 && html`<li><span class="swatch part free" aria-hidden="true"></span>Free <span class="number">${bytes(free)}</span></li>`}
    </ul>
  </div>`;
}
