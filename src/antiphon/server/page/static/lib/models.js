// Models that the page offers, and their preparation: the server downloads and loads a model before a request uses it.
import { ApiError, getJson, postJson } from "./api.js";
import { connection } from "./connection.js";
import { bytes } from "./format.js";
import { computed, effect, signal, untracked } from "./ui.js";

const BUSY_MS = 500;
/** States in which the server gives no answer about its models. */
const UNKNOWN = ["connecting", "away", "draining", "closed"];

/**
 * Cards of `GET /page/models`, preferred ones first; null until known. Beside the fields of `/v1/models` a card has
 * `missing` (names of the model and its companions that are to be downloaded), `missing_bytes` (their sum; null if
 * unknown), `is_preparing`, and `progress` of its download, `{completed_bytes, total_bytes}` or null.
 */
export const models = signal(null);
/** False if the server downloads nothing. */
export const canDownload = signal(true);

/** Detector that judges whether a sentence is finished. */
export const END_OF_TURN = "smart-turn";

/**
 * Return the cards of a task (`generate`, `transcribe`, `synthesize`, `embed`). A model whose task is unknown until it is
 * loaded counts as a language model.
 */
export const modelsFor = (task) => (models.value ?? []).filter((card) => (card.task ?? "generate") === task);

export const cardOf = (name) => (models.value ?? []).find((card) => card.id === name);

/** Return what the first use of a model downloads, in words, or an empty string. */
export function firstUse(name) {
  const missing = cardOf(name)?.missing_bytes;
  return missing ? `downloads ${bytes(missing)} on first use` : "";
}

export const hasModels = computed(() => models.value !== null);

/** Return whether a card's model is being downloaded or loaded. */
export const isBusy = (card) => card.is_preparing || card.progress !== null || card.state === "loading";

let asking = null;

/** Fetch the cards; concurrent calls share a request. */
export function refreshModels() {
  asking ??= getJson("/page/models")
    .then((told) => {
      canDownload.value = told.can_download;
      models.value = told.data;
    })
    .finally(() => (asking = null));
  return asking;
}

let timer = 0;

async function follow() {
  try {
    await refreshModels();
  } catch (error) {
    if (error.status !== 401) schedule(); // after a 401, the user was asked for a key and gave none
  }
}

function schedule() {
  clearTimeout(timer);
  if (!document.hidden && models.peek()?.some(isBusy)) timer = setTimeout(follow, BUSY_MS);
}

/** Fetch the models whenever the server's state changes, and while it is busy with them and the page is visible. */
export function watchModels() {
  effect(() => {
    if (!UNKNOWN.includes(connection.value.status)) untracked(follow);
  });
  effect(() => {
    models.value;
    schedule();
  });
  document.addEventListener("visibilitychange", schedule);
}

/** Error of a model that cannot be downloaded or loaded. The model's state on the page shows the `reason`. */
export class ModelError extends Error {
  constructor(name, reason) {
    super(`the model ${name} could not be loaded`);
    this.name = "ModelError";
    this.reason = reason;
  }
}

const pause = () => new Promise((resolve) => setTimeout(resolve, BUSY_MS));

/**
 * Have models downloaded and loaded, at the same time; resolves once all are. Throws ModelError if one cannot be, and
 * AbortError if `signal` aborts, which does not end the downloads. Returns at once if all are known to be loaded.
 */
export async function prepare(names, { signal: aborted } = {}) {
  const waiting = new Set(names.filter((name) => name && cardOf(name)?.state !== "ready"));
  await Promise.all([...waiting].map((name) => postJson("/page/models/load", { model: name }, { signal: aborted })));
  while (waiting.size > 0) {
    await refreshPatiently();
    aborted?.throwIfAborted();
    for (const name of waiting) {
      const card = cardOf(name);
      if (card?.is_preparing) continue;
      if (card?.error) throw new ModelError(name, card.error);
      waiting.delete(name);
    }
    if (waiting.size > 0) await pause();
  }
}

/** Fetch the cards even if the server is busy or away for a moment. */
async function refreshPatiently() {
  try {
    await refreshModels();
  } catch (error) {
    if (!(error instanceof ApiError) || ![0, 429].includes(error.status)) throw error;
    await pause();
  }
}
