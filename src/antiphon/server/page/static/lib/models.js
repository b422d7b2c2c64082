// Models that the server offers, fetched again when the server becomes ready or the models change.
import { getJson } from "./api.js";
import { connection } from "./connection.js";
import { computed, effect, signal } from "./ui.js";

/** Cards of `GET /v1/models`; null until known. */
export const models = signal(null);

/** Return the cards of a task (`generate`, `transcribe`, `synthesize`, `embed`), without aliases. */
export const modelsFor = (task) =>
  (models.value ?? []).filter((card) => card.task === task && card.id === card.root);

export const hasModels = computed(() => models.value !== null);

export async function refreshModels() {
  models.value = (await getJson("/v1/models")).data;
}

let wasReady = false;

/** Fetch the models whenever the server becomes ready. */
export function watchModels() {
  effect(() => {
    const isReady = connection.value.status === "ready";
    if (isReady && !wasReady) refreshModels().catch(() => {});
    wasReady = isReady;
  });
}
