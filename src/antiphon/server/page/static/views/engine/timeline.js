// Timeline of recent steps by model, and of requests below them, on an axis that can be moved and zoomed.
import { IconButton } from "../../components/icon.js";
import { media } from "../../lib/media.js";
import { html, signal, useEffect, useRef, useState } from "../../lib/ui.js";
import { Canvas } from "./canvas.js";
import { KINDS, kindColour } from "./colours.js";
import { describeRequest, describeStep } from "./describe.js";
import { known, live, models, now, version } from "./feed.js";
import { drawTimeline, hasContent, laneAt, lanes, timelineHeight } from "./timeline_drawing.js";

const SHORTEST = 0.002;
const LONGEST = 600;
const DEFAULT_SPAN = 10;
const ZOOM = 1.25;

const isNarrow = media("(max-width: 760px)");
const canHover = media("(hover: hover)");

/** Seconds shown, and the window's end by the engine's clock, null while the window follows the present. */
const span = signal(DEFAULT_SPAN);
const end = signal(null);
/** `{step}` or `{request}` under the pointer or chosen by keys, or null. */
export const chosen = signal(null);

const range = () => {
  const until = end.value ?? now();
  return [until - span.value, until];
};

export function zoom(factor, at = 1) {
  const [from, until] = range();
  const wanted = Math.min(LONGEST, Math.max(SHORTEST, span.value * factor));
  const fixed = from + at * (until - from);
  if (end.value !== null || at < 1) end.value = fixed + (1 - at) * wanted;
  span.value = wanted;
}

export function pan(share) {
  const [, until] = range();
  const moved = until + share * span.value;
  end.value = moved >= now() ? null : moved;
}

export const follow = () => {
  end.value = null;
  span.value = DEFAULT_SPAN;
};

export function Timeline() {
  version.value;
  models.value;
  live.value;
  const rows = lanes(range());
  const isFollowing = end.value === null;
  const isFocused = document.activeElement?.matches("canvas.timeline"); // by a user who moves it with keys
  const isIdle = isNarrow.value && isFollowing && !isFocused && !hasContent(rows, range());
  useTicks(isNarrow.value && isFollowing); // what ran leaves the window without a report
  const redraw = useRef(null);
  useEffect(() => {
    if (!isFollowing || isIdle) return undefined;
    let frame = 0;
    const move = () => {
      redraw.current?.();
      frame = requestAnimationFrame(move);
    };
    frame = requestAnimationFrame(move);
    return () => cancelAnimationFrame(frame);
  }, [isFollowing, isIdle]);
  const draw = (context, width) => drawTimeline(context, width, range(), lanes(range()), chosen.value);
  const setUp = (canvas, again) => {
    redraw.current = again;
    return listenTo(canvas);
  };
  const label = `Timeline of the last ${known.steps.length} steps. Arrow keys move it, plus and minus zoom, comma and full stop choose a step, End follows the present.`;
  return html`<section class="panel" aria-label="Timeline">
    <div class="panel-head">
      <h2>Steps and requests</h2>
      <span class="hint timeline-span">${spanText(span.value)}${isFollowing ? ", following" : ""}</span>
      <${IconButton} icon="chevronLeft" label="Earlier" onClick=${() => pan(-0.3)} />
      <${IconButton} icon="chevronRight" label="Later" onClick=${() => pan(0.3)} disabled=${isFollowing} />
      <${IconButton} icon="minus" label="Zoom out" onClick=${() => zoom(2)} />
      <${IconButton} icon="plus" label="Zoom in" onClick=${() => zoom(0.5)} />
      <button type="button" onClick=${follow} disabled=${isFollowing && span.value === DEFAULT_SPAN}>Now</button>
    </div>
    ${isIdle ? html`<p class="hint">Nothing ran in the last ${spanText(span.value)}.</p>` : html`
      <${Canvas} class="timeline" height=${timelineHeight(rows, isNarrow.value)} draw=${draw} setUp=${setUp} label=${label} role="img"
        tabindex="0" onKeyDown=${onKey} />
      <p class="detail number" role="status">${detail()}</p>
      <${KindKeys} />`}
  </section>`;
}

function KindKeys() {
  version.value; // new steps may be of another kind
  return html`<ul class="plot-keys">
    ${KINDS.filter(([kind]) => known.steps.some((step) => step.kind === kind)).map(([kind, label]) => html`<li key=${kind}>
      <span class="swatch" style=${{ background: kindColour(kind) }} aria-hidden="true"></span>${label}
    </li>`)}
    <li><span class="swatch queued" aria-hidden="true"></span>Request waiting</li>
  </ul>`;
}

function detail() {
  const { step, request } = chosen.value ?? {};
  if (step) return describeStep(step);
  if (request) return describeRequest(known.requests.get(request.id) ?? request, now());
  return `${canHover.value ? "Point at" : "Touch"} a step or a request to see what it is.`;
}

/** Render the calling component again every second while `isOn`. */
function useTicks(isOn) {
  const [, setCount] = useState(0);
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => setCount((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [isOn]);
}

const spanText = (seconds) => (seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`);

function onKey(event) {
  const actions = {
    ArrowLeft: () => pan(-0.1),
    ArrowRight: () => pan(0.1),
    PageUp: () => pan(-0.9),
    PageDown: () => pan(0.9),
    "+": () => zoom(1 / ZOOM),
    "=": () => zoom(1 / ZOOM),
    "-": () => zoom(ZOOM),
    End: follow,
    ",": () => choose(-1),
    ".": () => choose(1),
    Escape: () => (chosen.value = null),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

/** Choose the previous or next step, or if none is chosen the last before the window's end; move the window to it. */
function choose(direction) {
  const { steps } = known;
  const [from, until] = range();
  const at = steps.indexOf(chosen.value?.step);
  const place = at < 0 ? Math.max(0, steps.findLastIndex((step) => step.start < until)) : at + direction;
  const step = steps[place];
  if (!step) return;
  if (step.start < from || step.end > until) end.value = step.end + span.value / 2;
  chosen.value = { step };
}

function listenTo(canvas) {
  let grip = null; // start of a drag
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box.width];
  };
  const onWheel = (event) => {
    event.preventDefault();
    const [x, , width] = at(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / width);
    else zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, end.value === null && x > 0.8 * width ? 1 : x / width);
  };
  const onDown = (event) => {
    if (event.button) return;
    grip = { x: at(event)[0], until: range()[1] };
    canvas.setPointerCapture(event.pointerId);
  };
  const onMove = (event) => {
    const [x, y, width] = at(event);
    if (grip && Math.abs(x - grip.x) > 2) {
      const moved = grip.until - ((x - grip.x) / width) * span.value;
      end.value = moved >= now() ? null : moved;
    } else if (!grip) chosen.value = laneAt(x, y, width, range(), lanes(range()));
  };
  const onUp = () => (grip = null);
  const onLeave = () => grip || (chosen.value = null);
  const handlers = { wheel: onWheel, pointerdown: onDown, pointermove: onMove, pointerup: onUp, pointercancel: onUp, pointerleave: onLeave };
  for (const [name, handler] of Object.entries(handlers)) canvas.addEventListener(name, handler, { passive: false });
  return () => {
    for (const [name, handler] of Object.entries(handlers)) canvas.removeEventListener(name, handler);
  };
}

