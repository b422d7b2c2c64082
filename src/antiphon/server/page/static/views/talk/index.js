// View of voice conversations.
import { listed } from "../../lib/format.js";
import { hasModels } from "../../lib/models.js";
import { hrefOf } from "../../lib/navigate.js";
import { html, useSignal } from "../../lib/ui.js";
import { Icon, IconButton } from "../../components/icon.js";
import { ModelStates } from "../../components/model_state.js";
import { Empty, Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { Controls } from "./controls.js";
import { missingTasks, NEEDED, start, usedModels } from "./conversation.js";
import { Median } from "./latency.js";
import { isPushToTalk } from "./settings.js";
import { SettingsPanel } from "./settings_panel.js";
import { entries, hasMicrophone, isMuted, problem, remark, status, turn } from "./state.js";
import { Transcript } from "./transcript.js";
import { Waves } from "./waves.js";

const WORDS = {
  idle: "Not connected",
  preparing: "Waiting for the models",
  connecting: "Connecting",
  reconnecting: "Waiting for the server",
  listening: "Listening",
  hearing: "Hearing you",
  thinking: "Thinking",
  speaking: "Speaking",
};

export function View() {
  const areSettingsShown = useSignal(false);
  const toggle = () => (areSettingsShown.value = !areSettingsShown.value);
  return html`<${ViewHeader} title="Talk">
      <${Median} />
      <${IconButton} icon="sliders" label="Settings" aria-expanded=${String(areSettingsShown.value)} onClick=${toggle} />
    <//>
    <div class="talk">
      <div class="talk-main"><${Main} /></div>
      ${areSettingsShown.value && html`<${SettingsPanel} onClose=${toggle} />`}
    </div>`;
}

function Main() {
  const missing = hasModels.value ? missingTasks() : [];
  if (missing.length && status.value === "idle") return html`<${NoModels} missing=${missing} />`;
  const isFresh = status.value === "idle" && entries.value.length === 0;
  return html`
    ${!isFresh && html`<${Stage} />`}
    <${Transcript}>
      <${Problem} />
      ${isFresh ? html`<${Welcome} />` : html`<${Needs} isQuiet />`}
    <//>
    <${Controls} />`;
}

function Stage() {
  return html`<section class="talk-stage" data-turn=${turn} aria-label="Who has the turn">
    <${Waves} />
    <p class="talk-turn"><span class="turn-mark" aria-hidden="true"></span><span class="turn-word">${words()}</span></p>
    <p class="hint talk-remark">${remark}</p>
  </section>`;
}

function words() {
  const now = turn.value;
  if (now !== "listening") return WORDS[now];
  if (!hasMicrophone.value) return "Waiting for what you type";
  if (isPushToTalk.value) return "Hold the button or the space bar to speak";
  return isMuted.value ? "The microphone is muted" : WORDS.listening;
}

function Welcome() {
  const how = isPushToTalk.value ? "Hold a button while you speak." : "Just speak: the answer begins when you have finished.";
  return html`<${Empty} icon="microphone" title="Talk with the model">
    <p>${how} Speak again to interrupt it. Sound goes to this server only.</p>
    <button type="button" class="primary start" onClick=${() => start()}><${Icon} name="microphone" /> Start talking</button>
    <p class="hint">With headphones, an answer never interrupts itself.</p>
    <${Needs} />
  <//>`;
}

/** What the conversation's models still need before it begins. */
const Needs = ({ isQuiet }) => html`<${ModelStates} names=${usedModels()} isQuiet=${isQuiet} />`;

function NoModels({ missing }) {
  return html`<div class="view-body welcome">
    <${Empty} icon="microphone" title="A model is missing">
      <p>A conversation needs ${listed(Object.values(NEEDED))}. This server has no ${missing.map((task) => NEEDED[task].replace(/^a /, "")).join(" and no ")},
        and it loads no models by itself. Start it with such models, or without <code>--load-on-use configured</code>.</p>
      <p><a href=${hrefOf("models")}>Models of this server</a></p>
    <//>
  </div>`;
}

const list = (words) => `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

function Problem() {
  const found = problem.value;
  if (!found) return null;
  const typing = html` <button type="button" class="link" onClick=${() => start({ byTyping: true, goesOn: true })}>Go on by typing</button>`;
  return html`<${Notice} kind=${found.kind} onClose=${() => (problem.value = null)}>
    ${found.text}${found.isMicrophone && status.value === "idle" && typing}
  <//>`;
}
