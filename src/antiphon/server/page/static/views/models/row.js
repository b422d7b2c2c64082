// Row of one model: description, state and actions.
import { IconButton } from "../../components/icon.js";
import { prose } from "../../components/prose.js";
import { bytes, plural, seconds } from "../../lib/format.js";
import { html } from "../../lib/ui.js";
import { busy, cancelPull, downloads, failures, load, pull, setPinned, unload } from "./store.js";

/** Words for tasks. Tasks of loaded models and of the catalog have different names for the same thing. */
const TASKS = {
  generate: "Chat",
  chat: "Chat",
  completion: "Chat",
  transcribe: "Transcription",
  transcription: "Transcription",
  synthesize: "Speech",
  speech: "Speech",
  embed: "Embeddings",
  embedding: "Embeddings",
  score: "Ranking",
  phonemize: "Pronunciation",
  phonemes: "Pronunciation",
  "end-of-turn": "End of turn",
  "voice-activity": "Voice activity",
};

export const taskName = (task) => TASKS[task] ?? (task ? task[0].toUpperCase() + task.slice(1) : "");

/** Row of a model; `colour` is the class of its colour in the bar of the memory, if it is there. */
export function Row({ card, colour, onDelete }) {
  const { name } = card;
  const progress = downloads.value[name] ?? card.fetching;
  const failure = failures.value[name] ?? card.error;
  return html`<li class="model" data-model=${name} data-state=${card.state ?? (card.is_here ? "stored" : "absent")}>
    <div class="model-words">
      <p class="model-name">${colour && html`<span class=${`swatch part weights ${colour}`} aria-hidden="true"></span> `}${name}</p>
      <p class="hint number">${facts(card).filter(Boolean).join(" · ")}</p>
      ${failure && !progress && html`<p class="wrong">${prose(failure)}</p>`}
    </div>
    ${progress ? html`<${Progress} name=${name} progress=${progress} canCancel=${name in downloads.value} />` : html`<${Actions} card=${card} onDelete=${onDelete} />`}
  </li>`;
}

function facts(card) {
  const size = card.weight_bytes ?? card.bytes;
  return [
    card.title,
    taskName(card.task),
    size && bytes(size),
    card.licence,
    card.is_tried === false && "recommended, not tried",
    card.device && card.state === "ready" && card.device !== "cpu" && card.device,
    card.aliases?.length && `also ${card.aliases.join(", ")}`,
    card.requests > 0 && plural(card.requests, "request"),
    card.state === "ready" && card.expires && `unloaded in ${seconds(Math.max(0, card.expires - Date.now() / 1000))} unless used`,
    card.pinned && "pinned",
  ];
}

function Actions({ card, onDelete }) {
  const { name, state } = card;
  const doing = busy.value[name] ?? { loading: "Loading", unloading: "Unloading" }[state];
  if (doing) return html`<p class="doing" role="status">${doing}…</p>`;
  const isReady = state === "ready";
  return html`<div class="model-actions">
    ${isReady && !card.is_detector && html`<${IconButton} icon="pin" label=${`${card.pinned ? "Unpin" : "Pin"} ${name}`} aria-pressed=${String(Boolean(card.pinned))}
      onClick=${() => setPinned(name, !card.pinned)} />`}
    ${isReady && html`<button type="button" aria-label=${`Unload ${name}`} onClick=${() => unload(name)}>Unload</button>`}
    ${!isReady && card.is_here && html`<button type="button" class="primary" aria-label=${`Load ${name}`} onClick=${() => load(name)}>Load</button>`}
    ${!isReady && !card.is_here && html`<button type="button" aria-label=${`Fetch ${name}`} onClick=${() => pull(name)}>Fetch</button>`}
    ${!isReady && card.is_here && card.is_stored !== false && html`<${IconButton} icon="trash" label=${`Delete the files of ${name}`} onClick=${() => onDelete(card)} />`}
  </div>`;
}

function Progress({ name, progress, canCancel }) {
  const { status, completed_bytes: done, total_bytes: total } = progress;
  return html`<div class="model-progress">
    <progress aria-label=${`Download of ${name}`} max=${total || undefined} value=${total ? done : undefined}></progress>
    <p class="hint number">${total ? `${bytes(done)} of ${bytes(total)}` : ""} ${status}</p>
    ${canCancel && html`<button type="button" aria-label=${`Cancel the download of ${name}`} onClick=${() => cancelPull(name)}>Cancel</button>`}
  </div>`;
}
