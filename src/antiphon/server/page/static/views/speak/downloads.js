// Downloads of a speech as a sound file, in any format of the server, and of its captions.
import { readBody, request } from "../../lib/api.js";
import { json, srt, vtt } from "../../lib/captions.js";
import { download, fileName } from "../../lib/download.js";
import { bytes } from "../../lib/format.js";
import { ModelError, prepare } from "../../lib/models.js";
import { setting } from "../../lib/settings.js";
import { html, signal } from "../../lib/ui.js";
import { Icon } from "../../components/icon.js";
import { Notice } from "../../components/notice.js";
import { bodyOf, clausesOf } from "./speech.js";

const FORMATS = [
  { value: "mp3", label: "MP3" },
  { value: "wav", label: "WAV" },
  { value: "flac", label: "FLAC" },
  { value: "opus", label: "Opus" },
  { value: "aac", label: "AAC" },
  { value: "pcm", label: "PCM, 16 bits, 24 kHz" },
];
const CAPTIONS = { srt: { name: "SRT", make: srt }, vtt: { name: "VTT", make: vtt }, json: { name: "JSON", make: json } };

const format = setting("speak.format", "mp3");
/** File in progress, `{what, size, controller}`, or null. */
const making = signal(null);
const failure = signal(null);

async function make(what, work) {
  const controller = new AbortController();
  making.value = { what, size: 0, controller };
  failure.value = null;
  try {
    await work(controller.signal);
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof ModelError)) failure.value = error.message;
  } finally {
    making.value = null;
  }
}

const titleOf = (asked) => asked.text.trim().split(/\s+/).slice(0, 6).join(" ");

const saveSound = (asked, kind) =>
  make(kind, async (aborted) => {
    await prepare([asked.model], { signal: aborted });
    const response = await request("/v1/audio/speech", { json: bodyOf(asked, kind), signal: aborted });
    const chunks = [];
    for await (const chunk of readBody(response)) {
      chunks.push(chunk);
      making.value = { ...making.peek(), size: making.peek().size + chunk.length };
    }
    download(fileName(titleOf(asked), kind), new Blob(chunks, { type: response.headers.get("content-type") }));
  });

const saveCaptions = (asked, kind) =>
  make(kind, async (aborted) => {
    const clauses = await clausesOf(asked, aborted);
    const content = CAPTIONS[kind].make(clauses);
    download(fileName(titleOf(asked), kind), content, kind === "json" ? "application/json" : "text/plain");
  });

/** Buttons to download the speech `asked`, which is null without text. */
export function Downloads({ asked }) {
  const busy = making.value;
  const isOff = !asked || busy !== null;
  return html`<section class="panel downloads" aria-labelledby="downloads-title">
    <h2 id="downloads-title">Download</h2>
    <div class="download-row">
      <label for="sound-format" class="visually-hidden">Sound format</label>
      <select id="sound-format" value=${format.value} onChange=${(event) => (format.value = event.target.value)}>
        ${FORMATS.map(({ value, label }) => html`<option key=${value} value=${value} selected=${value === format.value}>${label}</option>`)}
      </select>
      <button type="button" disabled=${isOff} onClick=${() => saveSound(asked, format.value)}>
        <${Icon} name="download" size=${16} /> Sound
      </button>
      <span class="captions" role="group" aria-label="Captions">
        <span class="hint" aria-hidden="true">Captions</span>
        ${Object.entries(CAPTIONS).map(
          ([kind, { name }]) => html`<button type="button" key=${kind} disabled=${isOff} aria-label=${`Captions as ${name}`}
            onClick=${() => saveCaptions(asked, kind)}>${name}</button>`,
        )}
      </span>
    </div>
    ${busy &&
    html`<p class="making" role="status">Making the ${busy.what} file… ${busy.size > 0 && bytes(busy.size)}
      <button type="button" class="link" onClick=${() => busy.controller.abort()}>Cancel</button></p>`}
    ${failure.value && html`<${Notice} kind="error" onClose=${() => (failure.value = null)}>${failure}<//>`}
  </section>`;
}
