// Maps of the cache's pages: free, cached, shared, or in the colour of the request that uses them.
import { bytes, plural, whole } from "../../lib/format.js";
import { html, useSignal } from "../../lib/ui.js";
import { Canvas } from "./canvas.js";
import { colours, requestColour } from "./colours.js";
import { cache } from "./feed.js";

const FREE = 0;
const CACHED = 1;
const SHARED = 2;
const FIRST_OWNER = 3;
const LARGEST = 12;
const SMALLEST = 3;
const MAX_HEIGHT = 180;

export function CacheMaps() {
  const pools = cache.value.filter((pool) => pool.num_pages);
  return html`<section class="panel" aria-label="Pages of the cache">
    <h2>Cache pages</h2>
    ${pools.length
      ? pools.map((pool) => html`<${PoolMap} key=${`${pool.model} ${pool.group}`} pool=${pool} />`)
      : html`<p class="hint">No model holds pages. They are taken when a request runs.</p>`}
    ${pools.length > 0 && html`<ul class="plot-keys">
      <li><span class="swatch free" aria-hidden="true"></span>Free</li>
      <li><span class="swatch cached" aria-hidden="true"></span>Cached</li>
      <li><span class="swatch shared" aria-hidden="true"></span>Shared</li>
      <li><span class="swatch owned" aria-hidden="true"></span>A request's own, a colour each</li>
    </ul>`}
  </section>`;
}

/** Expand the runs (code, count) into the code of every cell. */
function cellsOf({ runs }) {
  const cells = [];
  for (let place = 0; place < runs.length; place += 2) for (let count = 0; count < runs[place + 1]; count += 1) cells.push(runs[place]);
  return cells;
}

function countsOf({ runs, pages_per_cell: pages }) {
  const counts = { free: 0, cached: 0, shared: 0, owned: 0 };
  const names = ["free", "cached", "shared"];
  for (let place = 0; place < runs.length; place += 2) counts[names[runs[place]] ?? "owned"] += runs[place + 1] * pages;
  return counts;
}

function PoolMap({ pool }) {
  const pointed = useSignal(null);
  const cells = cellsOf(pool);
  const { free, cached, shared, owned } = countsOf(pool);
  const text = `${plural(pool.num_pages, "page")} of ${bytes(pool.page_bytes)}: ${whole(owned)} used by ${plural(pool.owners.length, "request")}, ${whole(shared)} shared, ${whole(cached)} cached, ${whole(free)} free`;
  const layout = (width) => {
    let size = LARGEST;
    while (size > SMALLEST && Math.ceil(cells.length / Math.floor(width / size)) * size > MAX_HEIGHT) size -= 1;
    return { size, columns: Math.max(1, Math.floor(width / size)) };
  };
  const draw = (context, width) => {
    const palette = colours.value;
    const fixed = { [FREE]: palette.sunken, [CACHED]: palette["accent-soft"], [SHARED]: palette.series[2] };
    const { size, columns } = layout(width);
    cells.forEach((code, place) => {
      context.fillStyle = fixed[code] ?? requestColour(pool.owners[code - FIRST_OWNER]);
      context.fillRect((place % columns) * size, Math.floor(place / columns) * size, size - 1, size - 1);
    });
  };
  const onMove = (event) => {
    const box = event.target.getBoundingClientRect();
    const { size, columns } = layout(box.width);
    const column = Math.floor((event.clientX - box.left) / size);
    const place = Math.floor((event.clientY - box.top) / size) * columns + column;
    pointed.value = column < columns && place < cells.length ? place : null;
  };
  const code = pointed.value === null ? undefined : cells[pointed.value];
  const words = { [FREE]: "free", [CACHED]: "cached, no request uses it", [SHARED]: "shared by several requests" };
  const width = Math.min(1100, innerWidth - 80);
  const { size, columns } = layout(width);
  return html`<div class="pool">
    <p class="hint number">${pool.model}${pool.group === "self" ? "" : ` (${pool.group})`}: ${text}</p>
    <${Canvas} class="map" role="img" height=${Math.min(MAX_HEIGHT + 40, Math.max(size, Math.ceil(cells.length / columns) * size))} draw=${draw}
      label=${`Map of ${text}`} onPointerMove=${onMove} onPointerLeave=${() => (pointed.value = null)} />
    <p class="detail number">${code !== undefined && `Page ${whole(pointed.value * pool.pages_per_cell)}: ${words[code] ?? `of request ${pool.owners[code - FIRST_OWNER]}`}`}</p>
  </div>`;
}
