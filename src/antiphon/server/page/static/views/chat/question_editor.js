// Editor of a new question, or of another version of an earlier one.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/ui.js";
import { IconButton } from "../../components/icon.js";
import { ask, runningIn, stop } from "./generation.js";
import { model } from "./model.js";

const canHover = matchMedia("(hover: hover)");

/** Return whether a key sends: Enter without Shift, except on touch screens. */
function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && canHover.matches;
}

/** Fit a text area's height to its text; the style sheet limits the height. */
function useGrowth(text) {
  const area = useRef(null);
  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${area.current.scrollHeight + 2}px`;
  }, [text]);
  return area;
}

export function Composer({ conversation, onAsk }) {
  const [text, setText] = useState("");
  const area = useGrowth(text);
  const isRunning = Boolean(runningIn(conversation));
  useEffect(() => {
    if (canHover.matches) area.current.focus();
  }, [conversation.id]);
  const send = () => {
    if (!text.trim() || isRunning || !model.value) return;
    setText("");
    onAsk();
    ask(conversation, model.value, text.trim());
  };
  const onKeyDown = (event) => {
    if (!isSending(event)) return;
    event.preventDefault();
    send();
  };
  return html`<form class="composer" onSubmit=${(event) => (event.preventDefault(), send())}>
    <textarea ref=${area} rows="1" aria-label="Message" placeholder=${model.value ? `Message ${model.value}` : "No model can answer"}
      value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown}></textarea>
    ${isRunning
      ? html`<${IconButton} icon="stop" kind="primary" label="Stop" onClick=${() => stop(conversation)} />`
      : html`<${IconButton} icon="send" kind="primary" label="Send" type="submit" disabled=${!text.trim() || !model.value} />`}
  </form>`;
}

export function QuestionEditor({ node, conversation, onClose }) {
  const [text, setText] = useState(node.content);
  const area = useGrowth(text);
  useEffect(() => area.current.focus(), []);
  const send = () => {
    if (!text.trim()) return;
    onClose();
    ask(conversation, model.value, text.trim(), node.parent);
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") onClose();
    if (!isSending(event)) return;
    event.preventDefault();
    send();
  };
  return html`<form class="question-editor" onSubmit=${(event) => (event.preventDefault(), send())}>
    <textarea ref=${area} aria-label="Edit the question" value=${text} onKeyDown=${onKeyDown}
      onInput=${(event) => setText(event.target.value)}></textarea>
    <div class="dialog-buttons">
      <button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class="primary" disabled=${!text.trim()}>Ask again</button>
    </div>
  </form>`;
}
