// Markdown text, of which only changed blocks are rendered again.
import { html, useLayoutEffect, useMemo, useRef } from "../lib/ui.js";
import { grammarOf, highlighted, isLoaded, loadGrammar } from "../lib/highlight.js";
import { GrowingMarkdown } from "../lib/markdown.js";
import * as math from "../lib/math.js";
import { formulaOf } from "../lib/math_syntax.js";
import { copyText } from "./copy_button.js";

/** While `isGrowing`, code is highlighted once its end has arrived; afterwards also code that was cut off. */
export function Markdown({ text, isGrowing = false }) {
  const growing = useMemo(() => new GrowingMarkdown(), []);
  const blocks = growing.update(text);
  return html`<div class="markdown" onClick=${copyCode}>
    ${blocks.map((block, index) => html`<${Block} key=${block.id} content=${block.html}
      isGrowing=${isGrowing && index === blocks.length - 1} />`)}
  </div>`;
}

function Block({ content, isGrowing }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    element.current.innerHTML = content; // sanitized by lib/markdown.js
    for (const code of element.current.querySelectorAll("pre[data-lang]")) {
      addHead(code);
      if (!isGrowing || !("open" in code.dataset)) highlight(code);
    }
    for (const table of element.current.querySelectorAll("table")) addFrame(table);
    const formulas = element.current.querySelectorAll("[data-math]");
    if (formulas.length) drawAll(formulas);
  }, [content, isGrowing]);
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

/** Highlight code of a known language, at once if its grammar is loaded. */
function highlight(code) {
  const grammar = grammarOf(code.dataset.lang);
  if (!grammar) return;
  const show = () => {
    const place = code.querySelector("code");
    const made = highlighted(place.textContent, grammar);
    if (made) place.replaceChildren(made);
  };
  if (isLoaded(grammar)) show();
  else loadGrammar(grammar).then((isThere) => isThere && show());
}

/** Draw formulas, at once if the renderer is loaded. A formula with a mistake keeps its source. */
function drawAll(formulas) {
  const show = () => {
    for (const place of formulas) {
      const isDisplay = place.dataset.math === "display";
      const made = math.drawn(formulaOf(place.textContent), isDisplay);
      if (!made) continue;
      place.replaceChildren(made);
      if (place.isConnected && isDisplay && place.scrollWidth > place.clientWidth) makeScrollable(place);
    }
  };
  if (math.isLoaded()) show();
  else math.loadMath().then((isThere) => isThere && show());
}

function makeScrollable(formula) {
  formula.tabIndex = 0;
  formula.setAttribute("role", "region");
  formula.setAttribute("aria-label", "Formula");
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
