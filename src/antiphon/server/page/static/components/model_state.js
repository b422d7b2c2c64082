// What a view's models still need: a download on first use, its progress, or why it failed. Empty for loaded models.
import { ApiError } from "../lib/api.js";
import { bytes } from "../lib/format.js";
import { canDownload, cardOf, hasModels, isBusy, ModelError, prepare, refreshModels } from "../lib/models.js";
import { html, useEffect, useSignal } from "../lib/ui.js";
import { Notice } from "./notice.js";

/** States of the models with these names. `isQuiet` leaves out models that wait for their first use. */
export function ModelStates({ names, isQuiet = false }) {
  useEffect(() => {
    if (hasModels.peek()) refreshModels().catch(() => {}); // another page or program may have loaded the model
  }, [names.join()]);
  const cards = names.map(cardOf).filter((card) => card && card.state !== "ready");
  const shown = cards.filter((card) => !isQuiet || card.error || isBusy(card));
  return shown.length > 0 && html`<div class="model-states">${shown.map((card) => html`<${State} key=${card.id} card=${card} />`)}</div>`;
}

function State({ card }) {
  if (isBusy(card)) return html`<${Progress} card=${card} />`;
  if (card.error) return html`<${Failure} card=${card} />`;
  if (card.missing_bytes === 0) return null;
  if (canDownload.value) return html`<${Announced} card=${card} />`;
  return html`<${Notice} kind="warning"><strong>${card.id}</strong> is not complete on the server's disk, and this server downloads
    nothing (offline). Run <code>antiphon pull ${card.missing.join(" ")}</code> there while it is online.<//>`;
}

function Progress({ card }) {
  const { completed_bytes: done, total_bytes: total } = card.progress ?? {};
  const isDownloading = total > done;
  const words = isDownloading ? `${bytes(done)} of ${bytes(total)}` : "";
  return html`<div class="model-state" data-model=${card.id} data-state=${isDownloading ? "downloading" : "loading"}>
    <p role="status">${isDownloading ? "Downloading" : "Loading"} <strong>${card.id}</strong></p>
    <progress aria-label=${`${isDownloading ? "Download" : "Loading"} of ${card.id}`} max=${total} value=${isDownloading ? done : undefined}></progress>
    <p class="hint number">${words}</p>
  </div>`;
}

function Announced({ card }) {
  const size = card.missing_bytes === null ? "is downloaded" : `downloads ${bytes(card.missing_bytes)}`;
  return html`<div class="model-state" data-model=${card.id} data-state="missing">
    <p class="hint"><strong>${card.id}</strong> ${size} on first use. <${Attempt} name=${card.id} label="Download it now" /></p>
  </div>`;
}

function Failure({ card }) {
  return html`<${Notice} kind="error">${sentence(card.error)} <${Attempt} name=${card.id} label="Try again" /><//>`;
}

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

function Attempt({ name, label }) {
  const problem = useSignal("");
  const attempt = async () => {
    problem.value = "";
    try {
      await prepare([name]);
    } catch (error) {
      if (error instanceof ApiError) problem.value = ` ${sentence(error.message)}`;
      else if (!(error instanceof ModelError)) throw error; // the card has the reason
    }
  };
  return html`<button type="button" class="link" onClick=${attempt}>${label}</button>${problem}`;
}
