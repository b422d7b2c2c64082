// Labelled inputs, which show `value` and call `onChange` with the new value.
import { html, useId } from "../lib/ui.js";

export function Field({ label, hint, children, kind = "" }) {
  return html`<div class=${`field ${kind}`}>
    <label for=${children.props.id}>${label}</label>
    ${children}
    ${hint && html`<p class="hint" id=${`${children.props.id}-hint`}>${hint}</p>`}
  </div>`;
}

export function TextField({ label, hint, value, onChange, type = "text", ...rest }) {
  const id = useId();
  return html`<${Field} label=${label} hint=${hint}>
    <input id=${id} type=${type} value=${value} onInput=${(event) => onChange(event.target.value)}
      aria-describedby=${hint ? `${id}-hint` : undefined} ...${rest} />
  <//>`;
}

export function TextArea({ label, hint, value, onChange, ...rest }) {
  const id = useId();
  return html`<${Field} label=${label} hint=${hint}>
    <textarea id=${id} value=${value} onInput=${(event) => onChange(event.target.value)}
      aria-describedby=${hint ? `${id}-hint` : undefined} ...${rest}></textarea>
  <//>`;
}

/** Number input; `onChange` receives a number, or null if the field is empty. */
export function NumberField({ label, hint, value, onChange, ...rest }) {
  const id = useId();
  const change = (event) => {
    const { value: text, validity } = event.target;
    if (text === "") onChange(null);
    else if (validity.valid) onChange(Number(text));
  };
  return html`<${Field} label=${label} hint=${hint} kind="narrow">
    <input id=${id} type="number" value=${value ?? ""} onInput=${change}
      aria-describedby=${hint ? `${id}-hint` : undefined} ...${rest} />
  <//>`;
}

export function Slider({ label, value, onChange, shown, ...rest }) {
  const id = useId();
  return html`<div class="field slider">
    <label for=${id}>${label}</label>
    <output for=${id}>${shown ?? value}</output>
    <input id=${id} type="range" value=${value} onInput=${(event) => onChange(Number(event.target.value))} ...${rest} />
  </div>`;
}

/** Selection among `options`, which are strings or `{value, label}`. */
export function Select({ label, hint, value, onChange, options, ...rest }) {
  const id = useId();
  return html`<${Field} label=${label} hint=${hint}>
    <select id=${id} value=${value} onChange=${(event) => onChange(event.target.value)} ...${rest}>
      ${options.map((option) => {
        const { value: key, label: text } = typeof option === "string" ? { value: option, label: option } : option;
        return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
      })}
    </select>
  <//>`;
}

export function Switch({ label, hint, value, onChange, ...rest }) {
  const id = useId();
  return html`<div class="field switch">
    <input id=${id} type="checkbox" role="switch" checked=${value} onChange=${(event) => onChange(event.target.checked)}
      aria-describedby=${hint ? `${id}-hint` : undefined} ...${rest} />
    <label for=${id}>${label}</label>
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
  </div>`;
}
