// Buttons below a message.
import { firstUse } from "../../lib/models.js";
import { navigate } from "../../lib/navigate.js";
import { html } from "../../lib/ui.js";
import { CopyButton } from "../../components/copy_button.js";
import { IconButton } from "../../components/icon.js";
import { keep } from "./conversations.js";
import { regenerate, runningIn } from "./generation.js";
import { model } from "./model.js";
import { speak, speechModel, spoken, stopSpeaking } from "./speech.js";

export function QuestionActions({ node, conversation, onEdit }) {
  const isBusy = Boolean(runningIn(conversation));
  return html`<div class="actions">
    <${Siblings} node=${node} conversation=${conversation} what="question" />
    <${IconButton} icon="edit" label="Edit the question" onClick=${onEdit} disabled=${isBusy} size=${16} />
    <${CopyButton} text=${() => node.content} label="Copy the question" size=${16} />
  </div>`;
}

export function AnswerActions({ node, conversation }) {
  const isBusy = Boolean(runningIn(conversation));
  const question = conversation.questionOf(node);
  const first = conversation.path(node.id).find((step) => step.parent === question);
  const isSpoken = spoken.value?.id === node.id;
  const branch = () => {
    const made = conversation.branch(node.id);
    keep(made);
    navigate("chat", made.id);
  };
  return html`<div class="actions">
    <${Siblings} node=${first ?? node} conversation=${conversation} what="answer" />
    <${CopyButton} text=${() => node.content} label="Copy the answer" size=${16} />
    <${IconButton} icon="redo" label="Answer again" disabled=${isBusy || !model.value} size=${16}
      onClick=${() => regenerate(conversation, model.value, node)} />
    ${speechModel() && node.content &&
    html`<${IconButton} icon=${isSpoken ? "stop" : "speaker"} label=${isSpoken ? "Stop reading aloud" : "Read aloud"} size=${16}
      aria-pressed=${isSpoken ? "true" : "false"} title=${readingTitle(isSpoken)} onClick=${() => (isSpoken ? stopSpeaking() : speak(node))} />`}
    <${IconButton} icon="branch" label="Continue in a new chat" onClick=${branch} size=${16} />
  </div>`;
}

function readingTitle(isSpoken) {
  if (isSpoken) return "Stop reading aloud";
  const download = firstUse(speechModel());
  return download ? `Read aloud (${download})` : "Read aloud";
}

/** Selection of a message's version, if there are several. */
function Siblings({ node, conversation, what }) {
  const ids = conversation.siblings(node);
  if (ids.length < 2) return null;
  const index = ids.indexOf(node.id);
  const isBusy = Boolean(runningIn(conversation));
  const show = (step) => () => {
    conversation.show(ids[index + step]);
    keep(conversation);
  };
  return html`<span class="siblings" role="group" aria-label=${`Versions of the ${what}`}>
    <${IconButton} icon="chevronLeft" label=${`Previous ${what}`} onClick=${show(-1)} disabled=${isBusy || index === 0} size=${16} />
    <span class="number">${index + 1} / ${ids.length}</span>
    <${IconButton} icon="chevronRight" label=${`Next ${what}`} onClick=${show(1)} disabled=${isBusy || index === ids.length - 1} size=${16} />
  </span>`;
}
