// Controls below the conversation: speak, mute, type, stop, end.
import { html, useSignal } from "../../lib/ui.js";
import { Icon, IconButton } from "../../components/icon.js";
import { end, mute, say, start, stopAnswer } from "./conversation.js";
import { HoldButton } from "./hold_button.js";
import { isPushToTalk } from "./settings.js";
import { entries, hasMicrophone, isMuted, isSounding, response, status } from "./state.js";

export function Controls() {
  if (status.value === "idle") return entries.value.length > 0 && html`<${StartButtons} />`;
  const isOpen = status.value === "open";
  return html`<div class="talk-controls column">
    <${TextForm} isOpen=${isOpen} />
    <div class="talk-buttons">
      ${isPushToTalk.value
        ? html`<${HoldButton} />`
        : hasMicrophone.value && html`<button type="button" class="mute" aria-pressed=${String(isMuted.value)} onClick=${() => mute(!isMuted.value)}>
            <${Icon} name=${isMuted.value ? "microphoneOff" : "microphone"} /> ${isMuted.value ? "Muted" : "Mute"}
          </button>`}
      ${(isSounding.value || response.value !== null) && html`<button type="button" onClick=${() => stopAnswer()}><${Icon} name="stop" /> Stop the answer</button>`}
      <button type="button" class="danger end" onClick=${end}>${isOpen ? "End" : "Cancel"}</button>
    </div>
  </div>`;
}

function StartButtons() {
  return html`<div class="talk-controls column">
    <div class="talk-buttons">
      <button type="button" class="primary" onClick=${() => start({ goesOn: true })}><${Icon} name="microphone" /> Go on</button>
      <button type="button" onClick=${() => start()}>New conversation</button>
    </div>
  </div>`;
}

function TextForm({ isOpen }) {
  const text = useSignal("");
  const send = (event) => {
    event.preventDefault();
    say(text.value);
    text.value = "";
  };
  return html`<form class="talk-form" onSubmit=${send}>
    <input type="text" aria-label="Say something by typing" placeholder="Or type something" value=${text} disabled=${!isOpen}
      autocomplete="off" onInput=${(event) => (text.value = event.target.value)} />
    <${IconButton} type="submit" icon="send" label="Send" kind="primary" disabled=${!isOpen || !text.value.trim()} />
  </form>`;
}
