// Markdown text, of which only changed blocks are rendered again.
import { html, useLayoutEffect, useMemo, useRef } from "../lib/ui.js";
import { GrowingMarkdown } from "../lib/markdown.js";
import { copyText } from "./copy_button.js";

export function Markdown({ text }) {
  const growing = useMemo(() => new GrowingMarkdown(), []);
  const blocks = growing.update(text);
  return html`<div class="markdown" onClick=${copyCode}>
    ${blocks.map((block) => html`<${Block} key=${block.id} content=${block.html} />`)}
  </div>`;
}

function Block({ content }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    element.current.innerHTML = content; // sanitized by lib/markdown.js
    for (const code of element.current.querySelectorAll("pre[data-lang]")) addHead(code);
    for (const table of element.current.querySelectorAll("table")) addFrame(table);
  }, [content]);
  return useMemo(() => html`<div class="block" ref=${element}></div>`, []);
}

/** Add the name of the language and a copy button above the code. */
function addHead(code) {
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = code.dataset.lang || "text";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link copy-code";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy the code");
  head.append(name, button);
  code.before(head);
  code.tabIndex = 0; // makes it scrollable by keyboard
  code.setAttribute("role", "region");
  code.setAttribute("aria-label", `Code: ${name.textContent}`);
}

/** Put a table into a frame of its own, which scrolls if the table is wide. */
function addFrame(table) {
  const frame = document.createElement("div");
  frame.className = "table-frame";
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", "Table");
  table.before(frame);
  frame.append(table);
}

async function copyCode(event) {
  const button = event.target.closest(".copy-code");
  if (!button) return;
  await copyText(button.parentElement.nextElementSibling.textContent.replace(/\n$/, ""));
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}
