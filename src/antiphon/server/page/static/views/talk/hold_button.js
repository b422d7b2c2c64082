// Button that is held to speak, like the space bar anywhere in the view. Enter and a screen reader's click toggle it.
import { html, useEffect } from "../../lib/ui.js";
import { Icon } from "../../components/icon.js";
import { hold, release } from "./conversation.js";
import { hasMicrophone, isHolding } from "./state.js";

/** Elements in which the space bar has another meaning. */
const OWN_SPACE = "input, textarea, select, button, a, summary, [contenteditable]";

export function HoldButton() {
  useEffect(() => {
    const isSpace = (event) => event.code === "Space" && !event.target.closest?.(OWN_SPACE);
    const down = (event) => {
      if (!isSpace(event)) return;
      event.preventDefault(); // the space bar would scroll
      if (!event.repeat) hold();
    };
    const up = (event) => isSpace(event) && release();
    document.addEventListener("keydown", down);
    document.addEventListener("keyup", up);
    window.addEventListener("blur", release);
    return () => {
      document.removeEventListener("keydown", down);
      document.removeEventListener("keyup", up);
      window.removeEventListener("blur", release);
      release();
    };
  }, []);
  const press = (event) => {
    if (event.button !== 0) return;
    event.target.setPointerCapture?.(event.pointerId); // so that a release anywhere is noticed
    hold();
  };
  const key = (event) => {
    if (event.code !== "Space") return;
    event.preventDefault(); // no click
    if (event.type === "keyup") release();
    else if (!event.repeat) hold();
  };
  const click = (event) => {
    if (event.detail !== 0) return; // a pointer's click, handled by its press and release
    if (isHolding.value) release();
    else hold();
  };
  return html`<button type="button" class="hold primary" aria-pressed=${String(isHolding.value)} disabled=${!hasMicrophone.value}
    onPointerDown=${press} onPointerUp=${release} onPointerCancel=${release} onKeyDown=${key} onKeyUp=${key} onClick=${click}
    onContextMenu=${(event) => event.preventDefault()}>
    <${Icon} name="microphone" /> ${isHolding.value ? "Release to send" : "Hold to speak"}
  </button>`;
}
