// The line on top of a view: its name, and its tools beside it.
import { html } from "../lib/ui.js";

export function ViewHeader({ title, children }) {
  return html`<header class="view-header">
    <h1>${title}</h1>
    <div class="view-tools">${children}</div>
  </header>`;
}
