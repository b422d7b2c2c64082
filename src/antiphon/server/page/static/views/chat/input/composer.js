// Entry of a new question: typed or dictated text, and attached files.
import { html, useEffect, useRef, useState } from "../../../lib/ui.js";
import { IconButton } from "../../../components/icon.js";
import { Notice } from "../../../components/notice.js";
import { ask, runningIn, stop } from "../generation.js";
import { model } from "../model.js";
import { FileChips, attach, attached, attachmentError, detach, takeAttached } from "./attachments.js";
import { dictation, dictationError, dictationTitle, startDictation, stopDictation } from "./dictation.js";
import { canHover, isSending, useGrowth } from "./text_entry.js";

export function Composer({ conversation, onAsk }) {
  const [text, setText] = useState("");
  const area = useGrowth(text);
  const isRunning = Boolean(runningIn(conversation));
  const isDictating = Boolean(dictation.value);
  const files = attached.value;
  const canSend = Boolean((text.trim() || files.length) && model.value && !isRunning && !isDictating);
  useEffect(() => {
    if (canHover.matches) area.current.focus();
  }, [conversation.id]);
  useEffect(() => stopDictation, []);
  const send = () => {
    if (!canSend) return;
    setText("");
    onAsk();
    ask(conversation, model.value, text.trim(), { files: takeAttached() });
  };
  const dictate = () => {
    const before = text.trimEnd();
    startDictation((words) => setText([before, words].filter(Boolean).join(" ")));
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape" && isDictating) stopDictation();
    if (!isSending(event)) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    attach(event.clipboardData.files);
  };
  return html`
    <${Problem} message=${attachmentError} />
    <${Problem} message=${dictationError} />
    <form class="composer" onSubmit=${(event) => (event.preventDefault(), send())}>
      ${files.length > 0 && html`<${FileChips} files=${files} onRemove=${(file) => (detach(file), area.current.focus())} />`}
      <${AttachButton} />
      <textarea ref=${area} rows="1" aria-label="Message" placeholder=${model.value ? `Message ${model.value}` : "No model can answer"}
        value=${text} readonly=${isDictating} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}></textarea>
      <${IconButton} icon=${isDictating ? "stop" : "microphone"} kind=${isDictating ? "dictating" : ""} label=${isDictating ? "Stop dictating" : "Dictate"}
        title=${isDictating ? "Stop dictating" : dictationTitle()} onClick=${isDictating ? stopDictation : dictate} disabled=${isDictating && dictation.value.state.value === "finishing"} />
      ${isRunning
        ? html`<${IconButton} icon="stop" kind="primary" label="Stop" onClick=${() => stop(conversation)} />`
        : html`<${IconButton} icon="send" kind="primary" label="Send" type="submit" disabled=${!canSend} />`}
    </form>`;
}

/** Sentence in a signal, until it is closed. */
function Problem({ message }) {
  return message.value && html`<${Notice} kind="error" onClose=${() => (message.value = null)}>${message.value}<//>`;
}

function AttachButton() {
  const input = useRef(null);
  const choose = (event) => {
    attach([...event.target.files]);
    event.target.value = ""; // so that the same file can be chosen again
  };
  return html`<${IconButton} icon="clip" label="Attach text files" onClick=${() => input.current.click()} />
    <input ref=${input} type="file" multiple hidden aria-label="Text files to attach" onChange=${choose} />`;
}
