// The models that the server offers, fetched again when the server comes back or something changes them.
import { getJson } from "./api.js";
import { connection } from "./connection.js";
import { computed, effect, signal } from "./ui.js";

/** The cards of `GET /v1/models`; null until they are known. */
export const models = signal(null);

/** Tasks of cards: `generate`, `transcribe`, `synthesize`, `embed`. */
export const modelsFor = (task) =>
  (models.value ?? []).filter((card) => card.task === task && card.id === card.root);

export const hasModels = computed(() => models.value !== null);

export async function refreshModels() {
  models.value = (await getJson("/v1/models")).data;
}

let wasReady = false;

/** Fetch the models whenever the server gets ready. */
export function watchModels() {
  effect(() => {
    const isReady = connection.value.status === "ready";
    if (isReady && !wasReady) refreshModels().catch(() => {});
    wasReady = isReady;
  });
}
