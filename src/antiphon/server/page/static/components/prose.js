// Sentences of the server and of the page, with `code` between backticks.
import { html } from "../lib/ui.js";

/** Return a text with the parts between backticks as code; anything but a string is returned as it is. */
export const prose = (text) =>
  typeof text === "string" ? text.split(/`([^`\n]+)`/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part)) : text;
