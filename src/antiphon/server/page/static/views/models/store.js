// State of the server's models, polled while the view is open, and actions on them.
import { ApiError, events, getJson, postJson } from "../../lib/api.js";
import { announce } from "../../lib/announce.js";
import { refreshModels } from "../../lib/models.js";
import { computed, signal } from "../../lib/ui.js";

const CALM = 2500;
const BUSY = 500;

/** Answer of `/admin/models`; null until it has arrived. */
export const listing = signal(null);
/** `ApiError` if the list could not be fetched, or null. */
export const refusal = signal(null);
/** Downloads `{status, completed_bytes, total_bytes}` that this page started, by model. */
const pulls = signal({});
/** Error of the last failed action, by model. */
export const failures = signal({});
/** Action in progress, by model. */
export const busy = signal({});

/** All downloads by model, including those of other clients. */
export const downloads = computed(() => {
  const found = Object.fromEntries((listing.value?.downloads ?? []).map(({ model, ...progress }) => [model, progress]));
  return { ...found, ...pulls.value };
});

const without = (values, name) => Object.fromEntries(Object.entries(values).filter(([key]) => key !== name));

export async function refresh() {
  try {
    listing.value = await getJson("/admin/models");
    refusal.value = null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 403) refusal.value = error;
  }
}

/** Poll until the returned function is called. */
export function watch() {
  let timer = 0;
  let isOver = false;
  const round = async () => {
    await refresh();
    if (isOver || refusal.value) return;
    const isBusy = Object.keys(downloads.value).length > 0 || Object.keys(busy.value).length > 0;
    timer = setTimeout(round, isBusy ? BUSY : CALM);
  };
  round();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Run an action on a model, keep its error for the row, and fetch the lists again. */
async function act(name, what, action) {
  failures.value = without(failures.value, name);
  busy.value = { ...busy.value, [name]: what };
  try {
    await action();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failures.value = { ...failures.value, [name]: error.message };
  } finally {
    busy.value = without(busy.value, name);
    await refresh();
    refreshModels().catch(() => {});
  }
}

export const forgetFailure = (name) => (failures.value = without(failures.value, name));

export const load = (name, options = {}) =>
  act(name, "Loading", async () => {
    await postJson("/admin/models/load", { model: name, ...options });
    announce(`${name} is loaded`);
  });

export const unload = (name) =>
  act(name, "Unloading", async () => {
    await postJson("/admin/models/unload", { model: name });
    announce(`${name} is unloaded`);
  });

export const setPinned = (name, pinned) => act(name, pinned ? "Pinning" : "Unpinning", () => postJson("/admin/models/load", { model: name, pinned }));

export const remove = (name) =>
  act(name, "Deleting", async () => {
    await postJson("/admin/models/delete", { model: name });
    announce(`${name} is deleted`);
  });

/** Download a model; the server continues if the page is closed. */
export async function pull(name) {
  failures.value = without(failures.value, name);
  const note = (progress) => (pulls.value = { ...pulls.value, [name]: progress });
  note({ status: "starting", completed_bytes: 0, total_bytes: null });
  try {
    for await (const { data } of events("/admin/models/pull", { json: { model: name } })) {
      if (data.status !== "success") note(data);
    }
    announce(`${name} is downloaded`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code !== "download_cancelled") failures.value = { ...failures.value, [name]: error.message };
  } finally {
    pulls.value = without(pulls.value, name);
    await refresh();
    refreshModels().catch(() => {});
  }
}

export async function cancelPull(name) {
  try {
    await postJson("/admin/models/pull/cancel", { model: name });
    announce(`The download of ${name} is cancelled`);
  } catch (error) {
    if (error.code !== "download_not_found") throw error; // the download has already ended
  }
}
