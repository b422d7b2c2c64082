// Settings of the conversation. Changes apply from the next turn on, also in an open session.
import { getJson } from "../../lib/api.js";
import { modelsFor } from "../../lib/models.js";
import { effect, html, signal, untracked, useEffect, useId } from "../../lib/ui.js";
import { IconButton } from "../../components/icon.js";
import { NumberField, Select, Slider, Switch, TextArea } from "../../components/fields.js";
import { TOOLS } from "../chat/tools.js";
import { applySettings } from "./conversation.js";
import { chatModel, detection, eagerness, instructions, maxTokens, sessionFields, speed, toolNames, transcriptionModel, voice } from "./settings.js";

const APPLY_MS = 400; // milliseconds after the last key press
const DETECTIONS = [
  { value: "server_vad", label: "A short silence" },
  { value: "semantic_vad", label: "A finished sentence" },
  { value: "push_to_talk", label: "My release of a button" },
];
const DETECTION_HINTS = {
  server_vad: "Half a second without speech ends your turn.",
  semantic_vad: "A model (smart-turn) decides whether you have finished.",
  push_to_talk: "Hold the button or the space bar while you speak.",
};
const EAGERNESS = [
  { value: "auto", label: "Automatic: at most 4 s" },
  { value: "low", label: "Low: at most 8 s" },
  { value: "medium", label: "Medium: at most 4 s" },
  { value: "high", label: "High: at most 2 s" },
];

/** Voices of the server's speech model, `{model, names}`; null until known. */
const voices = signal(null);

/** Return whether the speech model is loaded: asking for its voices would download and load it. */
const canListVoices = () => modelsFor("synthesize")[0]?.state === "ready";

async function findVoices() {
  if (voices.peek() || !canListVoices()) return;
  try {
    const told = await getJson("/v1/audio/voices");
    voices.value = { model: told.model, names: told.data.filter((known) => known.same_as === null).map((known) => known.id) };
  } catch {
    // The list only has the server's default voice.
  }
}

let timer = 0;
let isFirst = true;
effect(() => {
  sessionFields();
  if (isFirst) {
    isFirst = false;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(() => untracked(applySettings), APPLY_MS);
});

export function SettingsPanel({ onClose }) {
  const id = useId();
  useEffect(() => void findVoices(), [canListVoices()]);
  const set = (chosen) => (value) => (chosen.value = value);
  const useTool = (name) => (isUsed) => {
    const others = toolNames.value.filter((known) => known !== name);
    toolNames.value = isUsed ? [...others, name] : others;
  };
  return html`<aside class="talk-settings" aria-labelledby=${id}>
    <header>
      <h2 id=${id}>Settings</h2>
      <${IconButton} icon="close" label="Close the settings" onClick=${onClose} />
    </header>
    <div class="talk-settings-body">
      <${Models} task="generate" label="Answers" chosen=${chatModel} />
      <${Models} task="transcribe" label="Hears" chosen=${transcriptionModel} />
      <${Voices} />
      <${Slider} label="Speed" min="0.5" max="1.5" step="0.05" value=${speed.value} shown=${`${speed.value.toFixed(2)} ×`} onChange=${set(speed)} />
      <${TextArea} label="Instructions" rows="4" value=${instructions.value} onChange=${set(instructions)} />
      <${NumberField} label="Longest answer" hint="In tokens. Empty: 1,024." min="1" step="1" value=${maxTokens.value} onChange=${set(maxTokens)} />
      <${Select} label="My turn ends with" value=${detection.value} onChange=${set(detection)} options=${DETECTIONS} hint=${DETECTION_HINTS[detection.value]} />
      ${detection.value === "semantic_vad" && html`<${Select} label="Eagerness to answer" value=${eagerness.value} onChange=${set(eagerness)} options=${EAGERNESS} />`}
      <fieldset class="talk-tools">
        <legend>Tools in this page</legend>
        ${TOOLS.map((tool) => html`<${Switch} key=${tool.name} label=${tool.label} value=${toolNames.value.includes(tool.name)} onChange=${useTool(tool.name)} />`)}
      </fieldset>
    </div>
  </aside>`;
}

function Models({ task, label, chosen }) {
  const names = modelsFor(task).map((card) => card.id);
  const value = names.includes(chosen.value) ? chosen.value : (names[0] ?? "");
  return html`<${Select} label=${label} value=${value} onChange=${(name) => (chosen.value = name)} options=${names} disabled=${names.length === 0} />`;
}

function Voices() {
  const known = voices.value;
  const names = known?.names ?? [];
  const kept = voice.value && !names.includes(voice.value) ? [voice.value] : []; // a mixture, or another model's voice
  const options = [{ value: "", label: "The server's default" }, ...names, ...kept];
  const hint = known ? `Of ${known.model}, the server's speech model.` : undefined;
  return html`<${Select} label="Voice" value=${voice.value} onChange=${(name) => (voice.value = name)} options=${options} hint=${hint} />`;
}
