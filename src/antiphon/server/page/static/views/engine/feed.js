// The engine's activity from `/admin/events`, kept while the view is open.
import { ApiError, events } from "../../lib/api.js";
import { batch, signal } from "../../lib/ui.js";
import { Series } from "./series.js";

/** Maximum steps that are kept for the timeline. */
export const MAX_STEPS = 5000;
const MAX_ENDED = 200;
const FIRST_RETRY = 500;
const LONGEST_RETRY = 5000;

/** State of the stream (`connecting`, `live` or `away`) and of the engine (`ready`, `restarting`, …). */
export const status = signal("connecting");
export const engineState = signal("");
/** `ApiError` of a key that the server refuses, after which no stream is tried; otherwise null. */
export const refusal = signal(null);
/** Number of reports so far, so that components are drawn again with each. */
export const version = signal(0);
export const models = signal([]);
export const queues = signal({});
export const memory = signal({});
export const cache = signal([]);
export const live = signal([]);
export const numDropped = signal(0);

/** Data that plots and canvases read without following each change. Steps and requests are objects by column names. */
export const known = { steps: [], ended: [], requests: new Map(), clock: 0, received: 0, series: new Series() };

let columns = { step: [], request: [] };

/** Return the engine's clock in seconds: the last reported time, plus the time since the report. */
export const now = () => (known.clock ? known.clock + (performance.now() - known.received) / 1000 : 0);

/** Follow the stream until the returned function is called. */
export function listen() {
  numDropped.value = 0;
  const controller = new AbortController();
  follow(controller.signal);
  return () => controller.abort();
}

async function follow(abort) {
  let pause = FIRST_RETRY;
  refusal.value = null;
  while (!abort.aborted) {
    try {
      status.value = "connecting";
      for await (const { event, data } of events("/admin/events", { signal: abort })) {
        pause = FIRST_RETRY;
        take(event, data);
      }
    } catch (error) {
      if (abort.aborted) return;
      if (error instanceof ApiError && [401, 403].includes(error.status)) {
        refusal.value = error;
        status.value = "away";
        return;
      }
    }
    if (abort.aborted) return;
    status.value = "away";
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(2 * pause, LONGEST_RETRY);
  }
}

function take(event, data) {
  batch(() => {
    if (event === "engine") engineState.value = data.state;
    else if (event === "snapshot") begin(data);
    else if (event === "activity") add(data);
    else if (event === "lost") numDropped.value += data.reports;
  });
}

function begin(data) {
  columns = { step: data.step_columns, request: data.request_columns };
  Object.assign(known, { steps: [], ended: [], requests: new Map(), series: new Series(data.gap_buckets) });
  cache.value = [];
  status.value = "live";
  add(data);
}

/** Add a report. Exported for the tests, which add large reports. */
export function add(data) {
  known.clock = data.clock;
  known.received = performance.now();
  for (const row of data.steps ?? []) {
    const step = object(columns.step, row);
    step.end = step.start + step.microseconds / 1e6;
    known.steps.push(step);
    known.series.addStep(step);
  }
  if (known.steps.length > MAX_STEPS) known.steps.splice(0, known.steps.length - MAX_STEPS);
  for (const [model, buckets] of Object.entries(data.gaps ?? {})) known.series.addGaps(data.clock, model, buckets);
  if (data.requests) takeRequests(data.requests);
  if (data.models) models.value = data.models;
  if (data.queues) queues.value = data.queues;
  if (data.memory) memory.value = data.memory;
  if (data.cache) cache.value = merged(cache.value, data.cache, models.value);
  if (data.dropped) numDropped.value += data.dropped;
  version.value += 1;
}

function takeRequests(rows) {
  for (const row of rows) {
    const request = object(columns.request, row);
    const before = known.requests.get(request.id);
    known.series.addRequest(request, before);
    if (request.finish_reason === null) {
      known.requests.set(request.id, request);
      continue;
    }
    known.requests.delete(request.id);
    known.ended.push(request);
  }
  if (known.ended.length > MAX_ENDED) known.ended.splice(0, known.ended.length - MAX_ENDED);
  live.value = [...known.requests.values()];
}

/** Return the cache maps, with changed ones replaced by model and group, and without those of unloaded models. */
function merged(before, changed, resident) {
  const key = (pool) => `${pool.model}\n${pool.group}`;
  const maps = new Map([...before, ...changed].map((pool) => [key(pool), pool]));
  const names = new Set(resident.map((model) => model.name));
  return [...maps.values()].filter((pool) => names.has(pool.model));
}

function object(names, row) {
  return Object.fromEntries(names.map((name, place) => [name, row[place]]));
}
