// Presets: settings of a chat under a name, kept in the browser.
import { announce } from "../../../lib/announce.js";
import { setting } from "../../../lib/settings.js";
import { html, useState } from "../../../lib/ui.js";
import { Select, TextField } from "../../../components/fields.js";
import { DEFAULT_OPTIONS } from "../conversation.js";

const MAX_NAME = 60;

/** Presets `{name, options}` in the order of their names. */
const presets = setting("chat.presets", [], { isShared: true });

const withDefaults = (options) => Object.fromEntries(Object.entries(DEFAULT_OPTIONS).map(([name, value]) => [name, options[name] ?? value]));
const isSame = (one, other) => JSON.stringify(withDefaults(one)) === JSON.stringify(withDefaults(other));

/** Choice among the presets, and the fields to save or delete one. `onApply` receives the options of a chosen preset. */
export function Presets({ options, onApply }) {
  const all = presets.value;
  const active = all.find((preset) => isSame(preset.options, options));
  const [typed, setTyped] = useState(active?.name ?? "");
  const name = typed.trim();
  const named = all.find((preset) => preset.name === name);
  const choose = (chosen) => {
    const preset = all.find((known) => known.name === chosen);
    setTyped(chosen);
    if (preset) onApply(withDefaults(preset.options));
  };
  const save = (event) => {
    event.preventDefault();
    if (!name) return;
    const others = all.filter((preset) => preset.name !== name);
    presets.value = [...others, { name, options: withDefaults(options) }].sort((one, other) => one.name.localeCompare(other.name));
    announce(`The preset ${name} is saved`);
  };
  const erase = () => {
    presets.value = all.filter((preset) => preset !== named);
    setTyped("");
    announce(`The preset ${name} is deleted`);
  };
  const isSaved = named && isSame(named.options, options);
  return html`<section class="presets" aria-label="Presets">
    ${all.length > 0 &&
    html`<${Select} label="Preset" value=${active?.name ?? ""} onChange=${choose}
      options=${[{ value: "", label: "None" }, ...all.map((preset) => preset.name)]} />`}
    <form onSubmit=${save}>
      <${TextField} label="Name of a preset" value=${typed} onChange=${setTyped} maxlength=${MAX_NAME} placeholder="Keep these settings as…" />
      <div class="preset-buttons">
        <button type="submit" disabled=${!name || isSaved}>${isSaved ? "Saved" : named ? "Overwrite" : "Save"}</button>
        ${named && html`<button type="button" class="danger" onClick=${erase}>Delete</button>`}
      </div>
    </form>
  </section>`;
}
