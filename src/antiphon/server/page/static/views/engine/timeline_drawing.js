// Layout and drawing of lanes, steps and requests on the timeline's canvas.
import { colours, kindColour, TASK_KINDS } from "./colours.js";
import { known, models } from "./feed.js";

const LABEL = 14; // height of a lane's name
const STEP = 20;
const REQUEST = 7;
const MAX_REQUESTS = 24;
const AXIS = 18;
const GAP = 6;

/** Return the rows from top to bottom: a lane for each model, and the requests of the window, newest last. */
export function lanes([from, until]) {
  const found = [];
  let top = 2;
  const resident = models.value.map((model) => model.name);
  const seen = new Set(known.steps.map((step) => step.model));
  for (const model of resident.filter((name) => seen.has(name) || resident.length <= 4)) {
    found.push({ model, top, height: LABEL + STEP });
    top += LABEL + STEP + GAP;
  }
  const requests = [...known.ended, ...known.requests.values()]
    .filter((request) => request.arrived < until && (request.finished ?? Infinity) > from)
    .slice(-MAX_REQUESTS);
  for (const request of requests) {
    found.push({ request, top, height: REQUEST });
    top += REQUEST + 2;
  }
  return found;
}

/** Return whether a step or a request is in the window. */
export function hasContent(rows, [from, until]) {
  return rows.some((row) => row.request) || known.steps.slice(firstAfter(from)).some((step) => step.end > from && step.start < until);
}

/**
 * Return a height with room for MAX_REQUESTS, so that the page does not move when requests come and go. A narrow screen
 * has room for the requests shown.
 */
export function timelineHeight(rows, isNarrow) {
  const numModels = rows.filter((row) => row.model).length;
  const room = isNarrow ? rows.length - numModels : MAX_REQUESTS;
  return 2 + numModels * (LABEL + STEP + GAP) + room * (REQUEST + 2) + AXIS;
}

/** Return the `{step}` or `{request}` at a point, or null. */
export function laneAt(x, y, width, [from, until], rows) {
  const row = rows.find((one) => y >= one.top && y < one.top + one.height);
  if (!row) return null;
  const time = from + (x / width) * (until - from);
  if (row.request) return { request: row.request };
  const slack = ((until - from) / width) * 2;
  const { steps } = known;
  for (let place = firstAfter(from - slack); place < steps.length && steps[place].start <= time + slack; place += 1) {
    const step = steps[place];
    if (step.model === row.model && step.end >= time - slack) return { step };
  }
  return null;
}

/** Return an index before all steps that end after `time`; the steps of several devices are only nearly in order. */
function firstAfter(time) {
  const { steps } = known;
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].end < time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 8);
}

export function drawTimeline(context, width, [from, until], rows, chosen) {
  const palette = colours.value;
  const scale = width / (until - from);
  const places = new Map();
  for (const row of rows) {
    if (row.request) drawRequest(context, row, from, scale, width, palette, row.request.id === chosen?.request?.id);
    else {
      places.set(row.model, row.top + LABEL);
      context.fillStyle = palette.sunken;
      context.fillRect(0, row.top + LABEL, width, STEP);
      context.fillStyle = palette["text-soft"];
      context.font = `11px ${palette.font}`;
      context.textBaseline = "top";
      context.fillText(row.model, 2, row.top + 1);
    }
  }
  drawSteps(context, from, until, scale, places);
  if (chosen?.step && places.has(chosen.step.model)) {
    context.strokeStyle = palette.text;
    context.lineWidth = 2;
    const { start, end, model } = chosen.step;
    context.strokeRect((start - from) * scale - 1, places.get(model) - 1, Math.max(2, (end - start) * scale) + 2, STEP + 2);
  }
  drawAxis(context, width, from, until, palette, context.canvas.clientHeight);
}

/** Draw the steps of each colour as one path, so that a few calls draw thousands. */
function drawSteps(context, from, until, scale, places) {
  const paths = new Map();
  const { steps } = known;
  for (let place = firstAfter(from); place < steps.length; place += 1) {
    const step = steps[place];
    const top = places.get(step.model);
    if (step.start > until || top === undefined) continue;
    const left = (step.start - from) * scale;
    const wide = (step.end - step.start) * scale;
    let path = paths.get(step.kind);
    if (!path) paths.set(step.kind, (path = new Path2D()));
    path.rect(left, top, Math.max(1, wide > 3 ? wide - 1 : wide), STEP);
  }
  for (const [kind, path] of paths) {
    context.fillStyle = kindColour(kind);
    context.fill(path);
  }
}

function drawRequest(context, { request, top }, from, scale, width, palette, isChosen) {
  const at = (time) => Math.min(width, Math.max(0, (time - from) * scale));
  const part = (begun, ended, colour, alpha = 1) => {
    if (begun === null) return;
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    const left = at(begun);
    context.fillRect(left, top, Math.max(1, (ended === null ? width : at(ended)) - left), REQUEST);
    context.globalAlpha = 1;
  };
  const { arrived, first_scheduled: scheduled, first_token: token, finished } = request;
  part(arrived, scheduled ?? finished, palette["line-strong"], 0.5);
  part(scheduled, token ?? finished, request.task in TASK_KINDS ? kindColour(TASK_KINDS[request.task]) : palette.series[1]);
  part(token, finished, palette.series[0]);
  if (["preempted", "swapped"].includes(request.state)) part(finished ?? arrived, finished, palette.warn, 0.6);
  if (["failed", "aborted"].includes(request.state) && finished !== null) {
    context.fillStyle = palette.bad;
    context.fillRect(at(finished) - 2, top - 1, 3, REQUEST + 2);
  }
  if (isChosen) {
    context.strokeStyle = palette.text;
    context.lineWidth = 1.5;
    context.strokeRect(at(arrived), top - 1, (finished === null ? width : at(finished)) - at(arrived), REQUEST + 2);
  }
}

function drawAxis(context, width, from, until, palette, tall) {
  const wanted = (until - from) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const tick = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted);
  context.font = `11px ${palette.font}`;
  context.textBaseline = "bottom";
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  for (let back = 0; back < until - from; back += tick) {
    const x = width - (back / (until - from)) * width;
    context.beginPath();
    context.moveTo(x - 0.5, 0);
    context.lineTo(x - 0.5, tall - AXIS + 4);
    context.stroke();
    const text = back ? `−${tick < 1 ? `${Math.round(back * 1e5) / 100} ms` : `${Math.round(back * 100) / 100} s`}` : "";
    context.fillStyle = palette["text-soft"];
    context.fillText(text, Math.max(0, x - context.measureText(text).width / 2), tall);
  }
}
