// Header of a view: its name and its tools.
import { html } from "../lib/ui.js";

export function ViewHeader({ title, children }) {
  return html`<header class="view-header">
    <h1>${title}</h1>
    <div class="view-tools">${children}</div>
  </header>`;
}
