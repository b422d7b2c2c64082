// Card of a file or a recording: progress, sound, text and actions.
import { json, srt, vtt } from "../../lib/captions.js";
import { download, fileName } from "../../lib/download.js";
import { clock } from "../../lib/format.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { CopyButton } from "../../components/copy_button.js";
import { IconButton } from "../../components/icon.js";
import { Notice } from "../../components/notice.js";
import { TimedText } from "../../components/timed_text.js";
import { remove, tryAgain } from "./records.js";

const STATES = {
  waiting: "Waiting",
  working: "Transcribing",
  recording: "Recording",
  finishing: "Finishing",
  done: "",
  failed: "Failed",
  cancelled: "Cancelled",
};

const EXPORTS = {
  txt: { type: "text/plain", make: (record) => `${record.text}\n` },
  srt: { type: "application/x-subrip", make: (record) => srt(record.segments.value) },
  vtt: { type: "text/vtt", make: (record) => vtt(record.segments.value) },
  json: {
    type: "application/json",
    make: (record) => json(record.segments.value, { language: record.language || undefined, duration: record.duration.value }),
  },
};

export function RecordCard({ record }) {
  const audio = useRef(null);
  const [isPlaying, setPlaying] = useState(false);
  const state = record.state.value;
  const hasSound = record.url.value !== null && ["working", "done"].includes(state);
  const play = (word) => {
    audio.current.currentTime = word.start;
    audio.current.play().catch(() => {}); // Sound reports a file that cannot be played
  };
  const position = () => {
    const player = audio.current;
    return player && (isPlaying || (player.currentTime > 0 && !player.ended)) ? player.currentTime : null;
  };
  const isLive = state === "recording" || state === "finishing";
  const isShown = record.paragraphs.value.length > 0;
  return html`<li class="panel record" data-state=${state}>
    <div class="record-head">
      <h3>${record.name}</h3>
      <span class="hint number">${STATES[state]} ${record.duration.value !== null && state === "done" && clock(record.duration.value)}</span>
      <${Tools} record=${record} state=${state} />
    </div>
    ${state === "working" && html`<${Progress} record=${record} />`}
    ${record.error.value &&
    html`<${Notice} kind="error" onClose=${state === "failed" ? undefined : () => (record.error.value = null)}>${record.error}<//>`}
    ${hasSound && html`<${Sound} record=${record} element=${audio} onPlaying=${setPlaying} />`}
    ${state === "done" && !isShown && html`<p class="hint">No speech was heard.</p>`}
    ${isShown &&
    html`<${TimedText} paragraphs=${record.paragraphs.value} isPlaying=${isPlaying} position=${position}
      label=${hasSound ? "Transcript; arrow keys go from word to word, Enter plays from one" : "Transcript"}
      onWord=${hasSound ? play : undefined} />`}
    ${isLive && html`<p class="hint">Words <span class="unsettled">like these</span> may still change.</p>`}
    ${isShown && state === "done" && html`<${Exports} record=${record} />`}
  </li>`;
}

function Tools({ record, state }) {
  const canCancel = state === "waiting" || state === "working";
  const canRepeat = state === "failed" || state === "cancelled";
  return html`<div class="record-tools">
    ${canCancel && html`<button type="button" onClick=${() => record.cancel()}>Cancel<span class="visually-hidden"> ${record.name}</span></button>`}
    ${canRepeat && html`<${IconButton} icon="redo" label=${`Try ${record.name} again`} onClick=${() => tryAgain(record)} />`}
    ${record.isOver && html`<${IconButton} icon="trash" label=${`Remove ${record.name}`} onClick=${() => remove(record)} />`}
  </div>`;
}

function Progress({ record }) {
  const duration = record.duration.value;
  const done = record.seconds.value;
  const text = duration ? `${clock(done)} of ${clock(duration)}` : `${clock(done)} done`;
  return html`<div class="progress-row">
    <progress aria-label=${`Progress of ${record.name}`} max=${duration || 1} value=${duration ? Math.min(done, duration) : undefined}></progress>
    <span class="hint number">${text}</span>
  </div>`;
}

function Sound({ record, element, onPlaying }) {
  const [cannotPlay, setCannotPlay] = useState(false);
  useEffect(() => () => onPlaying(false), []);
  if (cannotPlay) return html`<p class="hint">This browser cannot play the file. Its text is not affected.</p>`;
  const noteDuration = (event) => {
    const { duration } = event.target;
    if (record.duration.peek() === null && Number.isFinite(duration)) record.duration.value = duration;
  };
  return html`<audio ref=${element} src=${record.url.value} controls preload="metadata" aria-label=${`Sound of ${record.name}`}
    onLoadedMetadata=${noteDuration} onPlaying=${() => onPlaying(true)} onPause=${() => onPlaying(false)}
    onEnded=${() => onPlaying(false)} onError=${() => setCannotPlay(true)}></audio>`;
}

function Exports({ record }) {
  const base = record.name.replace(/\.[^.]+$/, "");
  const save = (kind) => download(fileName(base, kind), EXPORTS[kind].make(record), EXPORTS[kind].type);
  return html`<div class="exports" role="group" aria-label=${`Export ${record.name}`}>
    <span class="hint" aria-hidden="true">Export</span>
    ${Object.keys(EXPORTS).map(
      (kind) => html`<button type="button" key=${kind} aria-label=${`Export as ${kind.toUpperCase()}`} onClick=${() => save(kind)}>
        ${kind.toUpperCase()}
      </button>`,
    )}
    <${CopyButton} text=${() => record.text} label="Copy the text" />
  </div>`;
}
