// View of the engine: queues, plots, memory, cache pages, steps and requests.
import { MemoryBar } from "../../components/memory_bar.js";
import { Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { deviceName } from "../../lib/format.js";
import { html, useEffect, useSignal } from "../../lib/ui.js";
import { CacheMaps } from "./cache_map.js";
import { engineState, listen, memory, numDropped, refusal, status } from "./feed.js";
import { Plots } from "./plots.js";
import { Queues, Requests } from "./requests.js";
import { Timeline } from "./timeline.js";

const WORDS = { connecting: "Connecting", live: "Live", away: "Not connected" };

export function View() {
  const attempt = useSignal(0);
  useEffect(listen, [attempt.value]);
  const isRestarting = status.value === "live" && engineState.value && engineState.value !== "ready";
  return html`<${ViewHeader} title="Engine">
      <span class="feed-state hint" role="status">${isRestarting ? "Engine restarting" : WORDS[status.value]}</span>
    <//>
    <div class="view-body"><div class="boards">
      ${refusal.value && html`<${Notice} kind="error">
        ${refusal.value.message} <button type="button" class="link" onClick=${() => (attempt.value += 1)}>Try again</button>
      <//>`}
      ${numDropped.value > 0 && html`<${Notice} kind="warning">${numDropped} events came faster than they could be shown and were left out.<//>`}
      ${!refusal.value && html`
        <${Plots} />
        <div class="pair"><${Queues} /><${Memory} /></div>
        <${Timeline} />
        <${CacheMaps} />
        <${Requests} />`}
    </div></div>`;
}

function Memory() {
  const devices = Object.entries(memory.value);
  return html`<section class="panel" aria-label="Memory">
    <h2>Memory</h2>
    ${devices.map(([device, figures]) => html`<${MemoryBar} key=${device} title=${deviceName(device)} total=${device === "cpu" ? 0 : figures.memory_bytes} parts=${partsOf(figures)} />`)}
    ${devices.length === 0 && html`<p class="hint">Not known yet.</p>`}
  </section>`;
}

/** Return the parts of a device's memory for the bar. */
const partsOf = (figures) => {
  const models = Object.entries(figures.models);
  return [
    ...models.map(([model, own]) => ({ model, label: `${model} weights`, kind: "weights", bytes: own.weight_bytes })),
    ...models.map(([model, own]) => ({ model, label: `${model} cache`, kind: "kv", bytes: own.kv_bytes })),
    { label: "Cache not in use", kind: "reserved", bytes: figures.kv_bytes - figures.kv_lent_bytes },
    { label: "Workspace and the rest", kind: "other", bytes: figures.other_bytes },
  ];
};
