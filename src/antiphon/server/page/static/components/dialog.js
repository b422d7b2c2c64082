// Modal dialog of the browser, which keeps the focus inside and closes on Escape.
import { html, useEffect, useId, useRef } from "../lib/ui.js";

/** Dialog that is open while it is rendered. `onClose` is called when the user presses Escape or clicks beside it. */
export function Dialog({ title, onClose, children, kind = "" }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  const onCancel = (event) => {
    event.preventDefault();
    onClose();
  };
  const onClick = (event) => {
    if (event.target === element.current) onClose();
  };
  return html`<dialog ref=${element} class=${`dialog ${kind}`} aria-labelledby=${id} onCancel=${onCancel} onClick=${onClick}>
    <div class="dialog-body">
      <h2 id=${id}>${title}</h2>
      ${children}
    </div>
  </dialog>`;
}
