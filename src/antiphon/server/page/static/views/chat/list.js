// List of the user's conversations: search, rename, save and delete.
import { plural, when } from "../../lib/format.js";
import { hrefOf } from "../../lib/navigate.js";
import { html, useState } from "../../lib/ui.js";
import { Dialog } from "../../components/dialog.js";
import { TextField } from "../../components/fields.js";
import { Icon, IconButton } from "../../components/icon.js";
import { conversations, current, isStored, remove, save } from "./conversations.js";
import { exportJson, exportMarkdown } from "./export.js";
import { running } from "./generation.js";

export function ConversationList({ onClose }) {
  const [words, setWords] = useState("");
  const [managed, setManaged] = useState(null);
  const all = conversations.value ?? [];
  const found = all.filter((conversation) => conversation.matches(words));
  return html`<aside class="chat-side list" aria-label="Chats">
    <header class="side-head">
      <a class="button new-chat" href=${hrefOf("chat")} onClick=${onClose}><${Icon} name="plus" size=${16} /> New chat</a>
      <${IconButton} icon="close" kind="narrow-only" label="Close the list" onClick=${onClose} />
    </header>
    <div class="side-search">
      <input type="search" aria-label="Search chats" placeholder="Search" value=${words} onInput=${(event) => setWords(event.target.value)} />
    </div>
    <nav class="side-body" aria-label="Chats">
      <ul>
        ${found.map((conversation) => html`<${Entry} key=${conversation.id} conversation=${conversation} onManage=${setManaged} onClose=${onClose} />`)}
      </ul>
      <p class="hint none" role="status">${summary(words.trim(), all.length, found.length)}</p>
    </nav>
    <p class="hint side-foot">${isStored.value ? "Kept in this browser only." : "This browser stores nothing: chats last until the page is closed."}</p>
    ${managed && html`<${ManageDialog} conversation=${managed} onClose=${() => setManaged(null)} />`}
  </aside>`;
}

function summary(words, numAll, numFound) {
  if (numAll === 0) return "No chats yet. A chat is listed here with its first message.";
  if (!words) return "";
  return numFound ? `${plural(numFound, "chat")} found` : `No chat contains “${words}”.`;
}

function Entry({ conversation, onManage, onClose }) {
  conversation.shape.value; // render again when the title changes
  const isCurrent = current.value === conversation;
  return html`<li class=${isCurrent ? "current" : ""}>
    <a href=${hrefOf("chat", conversation.id)} aria-current=${isCurrent ? "true" : undefined} onClick=${onClose}>
      <span class="entry-title">${conversation.title}</span>
      <span class="hint">${running.value[conversation.id] ? "answering" : when(conversation.record.updatedAt)}</span>
    </a>
    <${IconButton} icon="more" label=${`Manage ${conversation.title}`} onClick=${() => onManage(conversation)} size=${16} />
  </li>`;
}

function ManageDialog({ conversation, onClose }) {
  const [title, setTitle] = useState(conversation.title);
  const rename = (event) => {
    event.preventDefault();
    if (title.trim()) {
      conversation.rename(title.trim());
      save(conversation);
    }
    onClose();
  };
  const erase = () => {
    remove(conversation);
    onClose();
  };
  return html`<${Dialog} title="Chat" onClose=${onClose}>
    <form onSubmit=${rename}>
      <${TextField} label="Title" value=${title} onChange=${setTitle} />
      <div class="manage-buttons">
        <button type="button" onClick=${() => exportMarkdown(conversation)}><${Icon} name="download" size=${16} /> Markdown</button>
        <button type="button" onClick=${() => exportJson(conversation)}><${Icon} name="download" size=${16} /> JSON</button>
        <button type="button" class="danger" onClick=${erase}><${Icon} name="trash" size=${16} /> Delete</button>
      </div>
      <div class="dialog-buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="primary">Save the title</button>
      </div>
    </form>
  <//>`;
}
