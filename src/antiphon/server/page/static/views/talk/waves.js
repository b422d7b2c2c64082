// Sound levels of the last seconds as bars: the user's above, answers' below.
import { isDark } from "../../app/theme.js";
import { html, useEffect, useRef } from "../../lib/ui.js";
import { isSending, microphone, playback } from "./conversation.js";

const COLUMN_MS = 50;
const COLUMN_PIXELS = 4;
const BAR_PIXELS = 2.5;
/** Scale a level by its square root, because speech is quiet on a linear scale. */
const height = (level) => Math.min(1, Math.sqrt(level) * 1.15);

export function Waves() {
  const canvas = useRef(null);
  const columns = useRef([]);
  const dark = isDark(); // read the colours again with the theme
  useEffect(() => draw(canvas.current, columns.current), [dark]);
  return html`<div class="waves">
    <canvas ref=${canvas} role="img" aria-label="The sound of the last seconds: you above, answers below"></canvas>
    <span class="wave-name you" aria-hidden="true">You</span>
    <span class="wave-name answer" aria-hidden="true">Antiphon</span>
  </div>`;
}

/** Draw and append to `columns` until the returned function is called. */
function draw(canvas, columns) {
  const style = getComputedStyle(canvas);
  const colours = { you: style.getPropertyValue("--series-2"), answer: style.getPropertyValue("--series-1"), line: style.getPropertyValue("--line") };
  let current = { you: 0, answer: 0 };
  let since = performance.now();
  let frame = 0;
  const step = (now) => {
    frame = requestAnimationFrame(step);
    current.you = Math.max(current.you, isSending() ? peak(microphone.peek()?.analyser) : 0);
    current.answer = Math.max(current.answer, peak(playback.peek()?.analyser));
    if (now - since < COLUMN_MS) return;
    since = now - since > 10 * COLUMN_MS ? now : since + COLUMN_MS; // skip the time in which the page was hidden
    columns.push(current);
    current = { you: 0, answer: 0 };
    paint(canvas, columns, colours);
  };
  frame = requestAnimationFrame(step);
  paint(canvas, columns, colours);
  return () => cancelAnimationFrame(frame);
}

const samples = new Float32Array(2048);

function peak(analyser) {
  if (!analyser) return 0;
  analyser.getFloatTimeDomainData(samples);
  let found = 0;
  for (const sample of samples) found = Math.max(found, Math.abs(sample));
  return found;
}

function paint(canvas, columns, colours) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: full } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(full * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(full * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, full);
  const most = Math.ceil(width / COLUMN_PIXELS);
  columns.splice(0, Math.max(0, columns.length - most));
  const half = full / 2;
  pen.fillStyle = colours.line;
  pen.fillRect(0, half - 0.5, width, 1);
  for (const [side, middle] of [["you", half / 2], ["answer", half * 1.5]]) {
    pen.fillStyle = colours[side];
    columns.forEach((column, index) => {
      const x = width - (columns.length - index) * COLUMN_PIXELS;
      const length = Math.max(1.5, height(column[side]) * (half - 8));
      pen.globalAlpha = column[side] < 0.003 ? 0.35 : 1;
      pen.fillRect(x, middle - length / 2, BAR_PIXELS, length);
    });
    pen.globalAlpha = 1;
  }
}
