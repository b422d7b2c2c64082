// View of transcriptions of files and of the microphone.
import { clock } from "../../lib/format.js";
import { models, modelsFor } from "../../lib/models.js";
import { html, useRef, useState } from "../../lib/ui.js";
import { Icon } from "../../components/icon.js";
import { ModelPicker } from "../../components/model_picker.js";
import { ModelStates } from "../../components/model_state.js";
import { NoModel } from "../../components/no_model.js";
import { Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { live, liveError, opening, startLive } from "./live.js";
import { Options, model } from "./options.js";
import { RecordCard } from "./record_card.js";
import { addFiles, records } from "./records.js";

const OPENING = { model: "Waiting for the model…", microphone: "Asking for the microphone…" };

export function View() {
  const [isOver, setOver] = useState(false); // a file is dragged over the view
  const hasNone = models.value !== null && modelsFor("transcribe").length === 0;
  const drag = {
    onDragOver: (event) => {
      if (hasNone || !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (event) => {
      if (!event.currentTarget.contains(event.relatedTarget)) setOver(false);
    },
    onDrop: (event) => {
      event.preventDefault();
      setOver(false);
      if (!hasNone) addFiles(event.dataTransfer.files);
    },
  };
  return html`<${ViewHeader} title="Transcribe"><${ModelPicker} task="transcribe" chosen=${model} /><//>
    <div class=${`view-body ${isOver ? "dropping" : ""}`} ...${drag}>${hasNone ? html`<${NoModel} task="transcribe" />` : html`<${Body} />`}</div>`;
}

function Body() {
  const hasModel = model.value !== "" && models.value !== null;
  return html`<div class="column transcribe">
    ${live.value ? html`<${Recording} session=${live.value} />` : html`<${Sources} isOff=${!hasModel} />`}
    <${ModelStates} names=${[model.value]} />
    ${liveError.value && html`<${Notice} kind="error" onClose=${() => (liveError.value = null)}>${liveError}<//>`}
    <${Options} />
    ${records.value.length > 0 &&
    html`<h2 class="visually-hidden">Transcripts</h2>
      <ul class="records">${records.value.map((record) => html`<${RecordCard} key=${record.id} record=${record} />`)}</ul>`}
  </div>`;
}

function Sources({ isOff }) {
  const input = useRef(null);
  const choose = (event) => {
    addFiles(event.target.files);
    event.target.value = ""; // so that the same file can be chosen again
  };
  return html`<section class="sources" aria-label="Sound to transcribe">
    <p>Drop sound or video files here, or</p>
    <div class="source-buttons">
      <button type="button" class="primary" disabled=${isOff} onClick=${() => input.current.click()}>
        <${Icon} name="upload" size=${16} /> Choose files
      </button>
      <button type="button" disabled=${isOff || opening.value} onClick=${startLive}>
        <${Icon} name="microphone" size=${16} /> ${OPENING[opening.value] ?? "Use the microphone"}
      </button>
    </div>
    <input ref=${input} type="file" multiple accept="audio/*,video/*" hidden onChange=${choose} aria-label="Files to transcribe" />
  </section>`;
}

function Recording({ session }) {
  const isFinishing = session.record.state.value === "finishing";
  return html`<section class="sources recording" aria-label="Recording">
    <p><span class="record-dot" aria-hidden="true"></span> ${isFinishing ? "Finishing the transcript…" : "Recording"}
      <span class="number"> ${clock(session.seconds.value)}</span></p>
    <div class="level" aria-hidden="true"><div style=${{ width: `${Math.round(session.level.value * 100)}%` }}></div></div>
    <button type="button" class="primary" disabled=${isFinishing} onClick=${() => session.stop()}>
      <${Icon} name="stop" size=${16} /> Stop
    </button>
  </section>`;
}
