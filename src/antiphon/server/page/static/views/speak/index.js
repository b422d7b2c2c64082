// View of text to speech.
import { whole } from "../../lib/format.js";
import { models, modelsFor } from "../../lib/models.js";
import { setting } from "../../lib/settings.js";
import { html, signal } from "../../lib/ui.js";
import { Slider, TextArea } from "../../components/fields.js";
import { Icon } from "../../components/icon.js";
import { ModelPicker } from "../../components/model_picker.js";
import { ModelStates } from "../../components/model_state.js";
import { NoModel } from "../../components/no_model.js";
import { Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { Downloads } from "./downloads.js";
import { Reader } from "./reader.js";
import { speak, speech, speechError } from "./speech.js";
import { VoicePicker } from "./voice_picker.js";
import { model, voiceText } from "./voices.js";

const speed = setting("speak.speed", 1);
const text = signal("");

export function View() {
  const hasNone = models.value !== null && modelsFor("synthesize").length === 0;
  return html`<${ViewHeader} title="Speak"><${ModelPicker} task="synthesize" chosen=${model} /><//>
    <div class="view-body">${hasNone ? html`<${NoModel} task="synthesize" />` : html`<${Body} />`}</div>`;
}

function Body() {
  const isEmpty = text.value.trim() === "";
  const asked = isEmpty || !model.value ? null : { model: model.value, text: text.value, voice: voiceText(model.value), speed: speed.value };
  const start = () => asked && speak(asked);
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      start();
    }
  };
  return html`<div class="column speak">
    <${TextArea} label="Text" rows="6" value=${text.value} onChange=${(value) => (text.value = value)} onKeyDown=${onKeyDown}
      placeholder="Write or paste what is to be spoken." />
    <div class="speak-row">
      <button type="button" class="primary" disabled=${!asked} onClick=${start}><${Icon} name="play" size=${16} /> Speak</button>
      <p class="hint"><span class="number">${whole(text.value.length)}</span> characters<span class="shortcut">; Ctrl+Enter speaks</span></p>
      <${Slider} label="Speed" min="0.25" max="4" step="0.05" value=${speed.value} shown=${`${speed.value} ×`}
        onChange=${(value) => (speed.value = value)} />
    </div>
    <${ModelStates} names=${[model.value]} />
    ${speechError.value && html`<${Notice} kind="error" onClose=${() => (speechError.value = null)}>${speechError}<//>`}
    ${speech.value && html`<${Reader} key=${speech.value} speech=${speech.value} />`}
    <${VoicePicker} />
    <${Downloads} asked=${asked} />
  </div>`;
}
