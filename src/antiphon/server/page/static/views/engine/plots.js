// Live plots of the last two minutes.
import "../../vendor/uplot.js";
import { NumberField } from "../../components/fields.js";
import { media } from "../../lib/media.js";
import { setting } from "../../lib/settings.js";
import { html, signal, useEffect, useLayoutEffect, useRef } from "../../lib/ui.js";
import { colours } from "./colours.js";
import { known, now } from "./feed.js";

const { uPlot } = globalThis;

const REFRESH = 500;
const HEIGHT = 150;
/** Seconds that the plots show at first; the range grows with the data. */
const SHORTEST = 30;

/** Target milliseconds of a request to its first token, and for each later token. */
export const targetFirst = setting("engine.target-first", 1000);
export const targetToken = setting("engine.target-token", 100);
const rows = signal(null);
const isNarrow = media("(max-width: 760px)");

const perSecond = (value) => value.toFixed(value < 10 ? 1 : 0);
const milliseconds = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(value < 10 ? 1 : 0)} ms`);

/** Format a number beside a plot with three significant digits. */
const plain = (value) => String(Number(value.toPrecision(3)));
const plainMilliseconds = (value) => (value >= 1000 ? `${plain(value / 1000)} s` : value ? `${plain(value)} ms` : "0");

const PLOTS = [
  { title: "Tokens per second", format: perSecond, tick: plain, lines: [["decode", "Decode", 0], ["prefill", "Prefill", 1]] },
  { title: "Time to first token", format: milliseconds, tick: plainMilliseconds, lines: [["first50", "Median", 0], ["first95", "95th percentile", 3]] },
  { title: "Gap between tokens", format: milliseconds, tick: plainMilliseconds, lines: [["gap50", "Median", 0], ["gap95", "95th percentile", 3]] },
  { title: "Goodput, requests per second", format: perSecond, tick: plain, lines: [["good", "Within the targets", 0], ["finished", "All finished", 1]] },
];

export function Plots() {
  useEffect(() => {
    const refresh = () => {
      if (!known.clock) return;
      rows.value = known.series.columns(now(), { first: targetFirst.value, token: targetToken.value });
    };
    refresh();
    const timer = setInterval(refresh, REFRESH);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="panel" aria-label="Figures of the last two minutes">
    <div class="plots">${PLOTS.map((plot) => html`<${Plot} key=${plot.title} ...${plot} />`)}</div>
    ${isNarrow.value && !PLOTS.some(({ lines }) => hasData(lines)) && html`<p class="hint">No request in the last two minutes. Plots appear with the next one.</p>`}
    <div class="targets">
      <${NumberField} label="Target for the first token, ms" value=${targetFirst.value} min="1" step="any"
        onChange=${(value) => value && (targetFirst.value = value)} />
      <${NumberField} label="Target for each token, ms" value=${targetToken.value} min="0.1" step="any"
        onChange=${(value) => value && (targetToken.value = value)} />
    </div>
  </section>`;
}

/** Format the newest value of a line. */
function last(name, format) {
  const values = rows.value?.[name] ?? [];
  for (let place = values.length - 1; place >= 0; place -= 1) if (values[place] !== null) return format(values[place]);
  return "–";
}

/** Return whether a plot has a line to draw: two values, and one other than zero. */
const hasData = (lines) =>
  lines.some(([name]) => {
    const values = rows.value?.[name].filter((value) => value !== null) ?? [];
    return values.length > 1 && values.some((value) => value > 0);
  });

/** Figures and their plot. A narrow screen has the figures only, as long as the plot would be empty. */
function Plot({ title, lines, format, tick }) {
  const isDrawn = !isNarrow.value || hasData(lines);
  return html`<figure class="plot" data-title=${title}>
    <figcaption>
      <h2>${title}</h2>
      <ul class="plot-keys">
        ${lines.map(([name, label, series]) => html`<li key=${name}>
          <span class=${`swatch series-${series + 1}`} aria-hidden="true"></span>${label} <b class="number">${last(name, format)}</b>
        </li>`)}
      </ul>
    </figcaption>
    ${isDrawn && html`<${Drawing} lines=${lines} tick=${tick} />`}
  </figure>`;
}

function Drawing({ lines, tick }) {
  const place = useRef(null);
  const plot = useRef(null);
  const palette = colours.value;
  useLayoutEffect(() => {
    const element = place.current;
    const made = new uPlot(options(palette, lines, tick, element.clientWidth), dataOf(lines), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [palette]);
  useEffect(() => {
    plot.current?.setData(dataOf(lines));
  }, [rows.value]);
  return html`<div class="plot-place" ref=${place} aria-hidden="true"></div>`;
}

function dataOf(lines) {
  const found = rows.value;
  if (!found) return [[-SHORTEST, 0], ...lines.map(() => [null, null])];
  return [found.ages, ...lines.map(([name]) => found[name])];
}

/** Return the age at which the plots begin: that of the first second with data, at least SHORTEST. */
function firstAge() {
  const place = rows.peek()?.decode.findIndex((value) => value !== null) ?? -1;
  return Math.min(-SHORTEST, place < 0 ? 0 : rows.peek().ages[place]);
}

function options(palette, lines, tick, width) {
  const axis = { stroke: palette["text-soft"], grid: { stroke: palette.line, width: 1 }, ticks: { show: false }, font: `11px ${palette.font}` };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 16, 0, 0],
    scales: { x: { time: false, range: () => [firstAge(), 0] }, y: { range: (_, low, high) => [0, 1.1 * (high || 1)] } },
    axes: [
      { ...axis, size: 24, values: (_, ages) => ages.map((age) => (age ? `−${-age} s` : "now")) },
      { ...axis, size: 52, values: (_, values) => values.map(tick) },
    ],
    series: [{}, ...lines.map(([, label, series]) => ({ label, stroke: palette.series[series], width: 1.5, spanGaps: true, points: { size: 4 } }))],
  };
}
