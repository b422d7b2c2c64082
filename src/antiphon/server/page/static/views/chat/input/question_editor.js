// Editor of another version of an earlier question.
import { html, useEffect, useState } from "../../../lib/ui.js";
import { ask } from "../generation.js";
import { model } from "../model.js";
import { isSending, useGrowth } from "./text_entry.js";

export function QuestionEditor({ node, conversation, onClose }) {
  const [text, setText] = useState(node.content);
  const area = useGrowth(text);
  const { files = [], parent } = node;
  const isEmpty = !text.trim() && files.length === 0;
  useEffect(() => area.current.focus(), []);
  const send = () => {
    if (isEmpty) return;
    onClose();
    ask(conversation, model.value, text.trim(), { parent, files });
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
      <button type="submit" class="primary" disabled=${isEmpty}>Ask again</button>
    </div>
  </form>`;
}
