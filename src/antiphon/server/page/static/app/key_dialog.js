// Dialog that asks for a key when the server requires one.
import { html, useState } from "../lib/ui.js";
import { ADMIN, question } from "../lib/keys.js";
import { Dialog } from "../components/dialog.js";
import { TextField } from "../components/fields.js";
import { prose } from "../components/prose.js";

const TEXTS = {
  api: {
    title: "API key",
    why: () => prose("This server needs a key. It is one line of the file that the server was started with (`--api-key-file`)."),
  },
  admin: {
    title: "Admin key",
    why: () =>
      html`Managing the server needs its admin key. A server that was started with <code>--admin-key-file</code> accepts
        the keys in that file. Any other server gives its key to browsers of its own user on its own machine; start it
        with <code>antiphon serve --open</code> to open this page with the key.`,
  },
};

export function KeyDialog() {
  const asked = question.value;
  return asked && html`<${KeyForm} key=${asked.kind} asked=${asked} />`;
}

function KeyForm({ asked }) {
  const [key, setKey] = useState("");
  const { title, why } = TEXTS[asked.kind === ADMIN ? "admin" : "api"];
  const send = (event) => {
    event.preventDefault();
    if (key.trim()) asked.answer(key.trim());
  };
  return html`<${Dialog} title=${title} onClose=${() => asked.answer(null)}>
    <p>${why()}</p>
    ${asked.message && html`<p class="wrong" role="alert">${prose(asked.message)}</p>`}
    <form onSubmit=${send}>
      <${TextField} label="Key" type="password" value=${key} onChange=${setKey} autocomplete="off" autofocus />
      <p class="hint">Kept until this tab is closed.</p>
      <div class="dialog-buttons">
        <button type="button" onClick=${() => asked.answer(null)}>Cancel</button>
        <button type="submit" class="primary" disabled=${!key.trim()}>Use this key</button>
      </div>
    </form>
  <//>`;
}
