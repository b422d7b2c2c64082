// View of the models in memory, on disk and in the catalog.
import { Dialog } from "../../components/dialog.js";
import { Select, TextField } from "../../components/fields.js";
import { MemoryBar, modelColour } from "../../components/memory_bar.js";
import { Notice } from "../../components/notice.js";
import { ViewHeader } from "../../components/view_header.js";
import { bytes, deviceName } from "../../lib/format.js";
import { html, signal, useEffect, useSignal } from "../../lib/ui.js";
import { Row, taskName } from "./row.js";
import { downloads, failures, forgetFailure, listing, pull, refusal, remove, watch } from "./store.js";

const IN_MEMORY = "In memory";
const RESIDENT = ["ready", "loading", "unloading"];
const wanted = signal("");
const task = signal("");

export function View() {
  const attempt = useSignal(0);
  const deleting = useSignal(null);
  useEffect(watch, [attempt.value]);
  const found = listing.value;
  return html`<${ViewHeader} title="Models"><span class="hint number">${found && `${bytes(found.disk.free_bytes)} free on disk`}</span><//>
    <div class="view-body"><div class="boards">
      ${refusal.value && html`<${Notice} kind="error">
        ${refusal.value.message} <button type="button" class="link" onClick=${() => (attempt.value += 1)}>Try again</button>
      <//>`}
      ${found ? html`<${Lists} found=${found} onDelete=${(card) => (deleting.value = card)} />` : !refusal.value && html`<p class="hint">Asking the server…</p>`}
    </div></div>
    ${deleting.value && html`<${DeleteDialog} card=${deleting.value} onClose=${() => (deleting.value = null)} />`}`;
}

function Lists({ found, onDelete }) {
  const all = [...found.models, ...found.catalog];
  const tasks = [...new Set(all.map((card) => taskName(card.task)).filter(Boolean))].sort();
  const text = wanted.value.trim().toLowerCase();
  const fits = (card) => `${card.name} ${card.title ?? ""}`.toLowerCase().includes(text) && (!task.value || taskName(card.task) === task.value);
  const shown = all.filter(fits);
  const resident = shown.filter((card) => RESIDENT.includes(card.state));
  const others = shown.filter((card) => !RESIDENT.includes(card.state));
  const name = wanted.value.trim();
  const isHub = /^hub:[\w.-]+\/[\w.-]+/.test(name);
  const isFiltered = Boolean(text || task.value);
  const showAll = () => {
    wanted.value = "";
    task.value = "";
  };
  const lists = [
    [IN_MEMORY, resident, "No model is loaded."],
    ["On disk", others.filter((card) => card.is_here), "No other model is on disk."],
    ["In the catalog", others.filter((card) => !card.is_here), "Every model of the catalog is on disk."],
  ].filter(([, cards]) => cards.length || !isFiltered);
  return html`
    <div class="filters">
      <${TextField} label="Find a model" value=${wanted.value} onChange=${(value) => (wanted.value = value)} type="search"
        placeholder="Name or hub:owner/repo" />
      <${Select} label="Task" value=${task.value} onChange=${(value) => (task.value = value)}
        options=${[{ value: "", label: "All" }, ...tasks]} />
    </div>
    ${isHub && !all.some((card) => card.name === name) && !(name in downloads.value) && html`<div class="panel hub">
      <p>Fetch <code>${name}</code> from the model hub.</p>
      <button type="button" class="primary" onClick=${() => pull(name)}>Fetch</button>
    </div>`}
    <${Unlisted} known=${all} />
    ${lists.length === 0 && !isHub && html`<p class="panel nothing" role="status">
      <span>${nothingFound(name)}</span> <button type="button" onClick=${showAll}>Show all models</button>
    </p>`}
    ${lists.map(([title, cards, none]) => html`<${List} key=${title} title=${title} cards=${cards} none=${none} found=${found} onDelete=${onDelete} />`)}`;
}

function nothingFound(name) {
  const kind = task.value ? ` for the task ${task.value}` : "";
  const hint = " A model of a hub is named hub:owner/repo.";
  return name ? `No model${kind} has “${name}” in its name.${hint}` : `There is no model${kind}.`;
}

/** Running and failed downloads of models that are in no list yet. */
function Unlisted({ known }) {
  const names = new Set(known.map((card) => card.name));
  const running = Object.entries(downloads.value).filter(([name]) => !names.has(name));
  const failed = Object.entries(failures.value).filter(([name]) => !names.has(name));
  return html`
    ${failed.map(([name, message]) => html`<${Notice} key=${name} kind="error" onClose=${() => forgetFailure(name)}>${name}: ${message}<//>`)}
    ${running.length > 0 && html`<section class="panel downloads" aria-label="Downloads">
      <h2>Downloads</h2>
      <ul class="models">${running.map(([name]) => html`<${Row} key=${name} card=${{ name }} />`)}</ul>
    </section>`}`;
}

function List({ title, cards, none, found, onDelete }) {
  const names = chargedModels(found).map((card) => card.name);
  const colour = (card) => (names.includes(card.name) ? modelColour(names, card.name) : "");
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    ${title === IN_MEMORY && names.length > 0 && html`<${Memory} found=${found} names=${names} />`}
    ${cards.length === 0
      ? html`<p class="hint">${none}</p>`
      : html`<ul class="models">${cards.map((card) => html`<${Row} key=${card.name} card=${card} colour=${colour(card)} onDelete=${onDelete} />`)}</ul>`}
  </section>`;
}

const chargedModels = (found) => found.models.filter((card) => card.charged_bytes > 0);

/** Memory of each device with a model on it. The rows below the bar name the models in their colours. */
function Memory({ found, names }) {
  return found.memory.devices.map((device) => {
    const own = chargedModels(found).filter((card) => card.device === device.device);
    if (own.length === 0) return null;
    const lent = device.kv_lent_bytes ?? 0;
    const parts = [
      ...own.map((card) => ({ model: card.name, label: card.name, kind: "weights", bytes: card.charged_bytes })),
      { label: "Cache in use", kind: "kv", bytes: lent },
      { label: "Cache not in use", kind: "reserved", bytes: device.kv_bytes - lent },
    ];
    return html`<${MemoryBar} key=${device.device} title=${deviceName(device.device)} total=${device.budget_bytes} parts=${parts} names=${names} />`;
  });
}

function DeleteDialog({ card, onClose }) {
  const confirm = () => {
    onClose();
    remove(card.name);
  };
  return html`<${Dialog} title=${`Delete ${card.name}?`} onClose=${onClose}>
    <p>${card.bytes ? `Its files take ${bytes(card.bytes)}. ` : ""}The model can be fetched again.</p>
    <div class="dialog-buttons">
      <button type="button" onClick=${onClose}>Keep</button>
      <button type="button" class="danger" onClick=${confirm}>Delete</button>
    </div>
  <//>`;
}
