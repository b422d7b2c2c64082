// Placeholder of an empty chat, with examples of questions.
import { modelsFor, models } from "../../lib/models.js";
import { html } from "../../lib/ui.js";
import { NoModel } from "../../components/no_model.js";
import { Empty } from "../../components/notice.js";
import { model } from "./model.js";

const EXAMPLES = [
  "Explain in three sentences why the sky is blue.",
  "Write a Python function that tells whether a word is a palindrome.",
  "Make a table of the four largest planets and their diameters.",
  "What is the quadratic formula, and what is it for?",
];

/** `onAsk` receives the question of an example that was clicked. */
export function Welcome({ onAsk }) {
  const hasNone = models.value !== null && modelsFor("generate").length === 0;
  return html`<div class="view-body welcome">
    ${hasNone
      ? html`<${NoModel} task="generate" />`
      : html`<${Empty} icon="chat" title="Ask something">
          <p>Answers come from ${model.value || "the model"} on this server. For example:</p>
          <ul class="examples" aria-label="Examples of questions">
            ${EXAMPLES.map((text) => html`<li key=${text}><button type="button" disabled=${!model.value} onClick=${() => onAsk(text)}>${text}</button></li>`)}
          </ul>
        <//>`}
  </div>`;
}
