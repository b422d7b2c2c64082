// Messages inside a view.
import { html } from "../lib/ui.js";
import { Icon, IconButton } from "./icon.js";
import { prose } from "./prose.js";

export function Notice({ kind = "info", children, onClose }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "note"}>
    <div>${[children].flat().map(prose)}</div>
    ${onClose && html`<${IconButton} icon="close" label="Close this message" onClick=${onClose} size=${16} />`}
  </div>`;
}

/** Placeholder of a view without content. */
export function Empty({ icon, title, children }) {
  return html`<div class="empty">
    <${Icon} name=${icon} size=${36} />
    <h2>${title}</h2>
    ${children}
  </div>`;
}
