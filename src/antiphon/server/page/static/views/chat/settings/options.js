// Options of a conversation: system prompt, sampling, schema and tools.
import { html, useId, useState } from "../../../lib/ui.js";
import { IconButton } from "../../../components/icon.js";
import { NumberField, Select, Switch, TextArea } from "../../../components/fields.js";
import { DEFAULT_OPTIONS } from "../conversation.js";
import { setOption } from "../conversations.js";
import { TOOLS } from "../tools.js";
import { Presets } from "./presets.js";

const NUMBERS = [
  ["temperature", "Temperature", { min: 0, max: 5, step: 0.1 }],
  ["top_p", "Top p", { min: 0.01, max: 1, step: 0.01 }],
  ["top_k", "Top k", { min: -1, step: 1 }],
  ["min_p", "Min p", { min: 0, max: 1, step: 0.01 }],
  ["max_tokens", "Most tokens", { min: 1, step: 1 }],
  ["seed", "Seed", { step: 1 }],
  ["repetition_penalty", "Repetition penalty", { min: 0.01, step: 0.01 }],
  ["presence_penalty", "Presence penalty", { min: -2, max: 2, step: 0.1 }],
  ["frequency_penalty", "Frequency penalty", { min: -2, max: 2, step: 0.1 }],
];
const EFFORTS = [
  { value: "", label: "As the model decides" },
  ...["none", "low", "medium", "high"].map((effort) => ({ value: effort, label: effort })),
];

export function OptionsPanel({ conversation, onClose }) {
  conversation.shape.value; // render again when options change
  const { options } = conversation.record;
  const set = (name) => (value) => setOption(conversation, name, value);
  const isDefault = Object.entries(DEFAULT_OPTIONS).every(([name, value]) => `${options[name] ?? ""}` === `${value ?? ""}`);
  const apply = (chosen) => Object.entries(chosen).forEach(([name, value]) => set(name)(value));
  const reset = () => apply(DEFAULT_OPTIONS);
  const useTool = (name) => (isUsed) => {
    const others = options.tools.filter((known) => known !== name);
    set("tools")(isUsed ? [...others, name] : others);
  };
  return html`<aside class="chat-side options" aria-label="Settings of this chat">
    <header class="side-head">
      <h2>Settings</h2>
      <button type="button" class="link" onClick=${reset} disabled=${isDefault}>Reset</button>
      <${IconButton} icon="close" label="Close the settings" onClick=${onClose} />
    </header>
    <div class="side-body">
      <${Presets} options=${options} onApply=${apply} />
      <${TextArea} label="System prompt" rows="4" value=${options.system} onChange=${set("system")} />
      <section class="numbers" aria-label="Sampling">
        ${NUMBERS.map(
          ([name, label, limits]) => html`<${NumberField} key=${name} label=${label} value=${options[name]}
            onChange=${set(name)} placeholder="default" ...${limits} />`,
        )}
      </section>
      <${TextArea} label="Stop at" hint="One text per line ends the answer." rows="1" value=${options.stop} onChange=${set("stop")} />
      <${Select} label="Reasoning" value=${options.reasoning_effort} onChange=${set("reasoning_effort")} options=${EFFORTS} />
      <${SchemaField} value=${options.schema} onChange=${set("schema")} />
      <fieldset class="tools">
        <legend>Tools in this page</legend>
        ${TOOLS.map(
          (tool) => html`<${Switch} key=${tool.name} label=${tool.label} value=${options.tools.includes(tool.name)}
            onChange=${useTool(tool.name)} />`,
        )}
      </fieldset>
    </div>
  </aside>`;
}

/** Input for a JSON schema; text that is not valid JSON is reported and not used. */
function SchemaField({ value, onChange }) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  const id = useId();
  if (known !== value) {
    setKnown(value); // the value was reset, or another conversation is shown
    setText(value);
  }
  const problem = text.trim() ? problemOf(text) : null;
  const change = (event) => {
    const next = event.target.value;
    setText(next);
    if (next.trim() && problemOf(next)) return;
    setKnown(next);
    onChange(next);
  };
  return html`<div class="field">
    <label for=${id}>JSON schema of the answer</label>
    <textarea id=${id} class="code" rows="4" spellcheck="false" value=${text} onInput=${change}
      aria-invalid=${problem ? "true" : undefined} aria-describedby=${`${id}-hint`}></textarea>
    <p id=${`${id}-hint`} class=${problem ? "wrong" : "hint"}>${problem ?? "Empty: free text."}</p>
  </div>`;
}

function problemOf(text) {
  try {
    const schema = JSON.parse(text);
    return typeof schema === "object" && schema !== null && !Array.isArray(schema) ? null : "A schema is an object.";
  } catch (error) {
    return `Not JSON yet: ${error.message}`;
  }
}
