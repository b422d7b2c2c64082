// Selection among the server's models for one task.
import { html, useEffect, useId } from "../lib/ui.js";
import { models, modelsFor } from "../lib/models.js";

const STATES = { ready: "", loaded: "", loading: " (loading)", unloaded: " (not loaded)", failed: " (failed)" };

const stateOf = (card) => {
  if (card.state === "unloaded" && card.missing_bytes !== 0) return " (not downloaded)";
  return STATES[card.state] ?? ` (${card.state})`;
};

/** Selection of the model whose name is in the signal `chosen`; an unknown name is replaced by the first model's. */
export function ModelPicker({ task, chosen, label = "Model" }) {
  const id = useId();
  const cards = modelsFor(task);
  const isKnown = cards.some((card) => card.id === chosen.value);
  useEffect(() => {
    if (!isKnown && cards.length) chosen.value = cards[0].id;
  }, [isKnown, cards.length]);
  const change = (event) => (chosen.value = event.target.value);
  const none = models.value === null ? "…" : "none";
  return html`<span class="model-picker">
    <label for=${id} class="visually-hidden">${label}</label>
    <select id=${id} value=${cards.length ? chosen.value : ""} onChange=${change} disabled=${cards.length === 0}>
      ${cards.length === 0 && html`<option value="" selected>${none}</option>`}
      ${cards.map(
        (card) => html`<option key=${card.id} value=${card.id} selected=${card.id === chosen.value}>
          ${card.id}${stateOf(card)}
        </option>`,
      )}
    </select>
  </span>`;
}
