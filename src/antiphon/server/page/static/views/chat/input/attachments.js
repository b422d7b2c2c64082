// Text files attached to a question; `promptOf` makes their content part of the prompt.
import { announce } from "../../../lib/announce.js";
import { bytes, plural, whole } from "../../../lib/format.js";
import { html, signal } from "../../../lib/ui.js";
import { Icon, IconButton } from "../../../components/icon.js";

export const MAX_BYTES = 250_000;
export const MAX_FILES = 8;
/** Characters that text files do not have. */
const CONTROL = /[\0-\x08\x0e-\x1a\x1c-\x1f]/;

/** Files `{name, size, text}` of the next question, and a sentence about files that were rejected, or null. */
export const attached = signal([]);
export const attachmentError = signal(null);

/** Attach files; those that cannot be are named with the reason. */
export async function attach(files) {
  const problems = [];
  for (const file of files) {
    try {
      const read = await readText(file);
      if (attached.peek().length >= MAX_FILES) throw new Error(`A question takes at most ${plural(MAX_FILES, "file")}; ${file.name} is not attached.`);
      attached.value = [...attached.peek(), read];
      announce(`${file.name} is attached`);
    } catch (error) {
      problems.push(error.message);
    }
  }
  attachmentError.value = problems.join(" ") || null;
}

export function detach(file) {
  attached.value = attached.peek().filter((other) => other !== file);
  announce(`${file.name} is removed`);
}

/** Return the attached files, and begin without any. */
export function takeAttached() {
  const files = attached.peek();
  attached.value = [];
  attachmentError.value = null;
  return files;
}

/** Read a text file. Throws an Error with a sentence for a file that is too large or not text. */
async function readText(file) {
  if (file.size > MAX_BYTES) {
    throw new Error(`${file.name} has ${whole(file.size)} bytes; an attached file may have at most ${whole(MAX_BYTES)}.`);
  }
  const content = new Uint8Array(await file.arrayBuffer());
  const isWide = (content[0] === 0xff && content[1] === 0xfe) || (content[0] === 0xfe && content[1] === 0xff);
  const encoding = !isWide ? "utf-8" : content[0] === 0xff ? "utf-16le" : "utf-16be";
  let text = null;
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(content);
  } catch {
    // Bytes of another encoding, or of no text.
  }
  if (text === null || CONTROL.test(text)) throw new Error(`${file.name} is not a text file. Only text can be attached, in UTF-8 or UTF-16.`);
  return { name: nameOf(file), size: file.size, text };
}

/** Return a file's name in one line without backticks, as the prompt has it. */
const nameOf = (file) => file.name.replace(/[\s`]+/g, " ").trim() || "file.txt";

/** Chips of files; with `onRemove`, each has a button that removes it. */
export function FileChips({ files, onRemove }) {
  return html`<ul class="files" aria-label="Attached files">
    ${files.map(
      (file, index) => html`<li key=${index}>
        <${Icon} name="file" size=${14} /><span class="file-name" title=${file.name}>${file.name}</span>
        <span class="file-size number">${bytes(file.size)}</span>
        ${onRemove && html`<${IconButton} icon="close" label=${`Remove ${file.name}`} size=${14} onClick=${() => onRemove(file)} />`}
      </li>`,
    )}
  </ul>`;
}

/** Return handlers of an element on which files can be dropped; `setOver` is called with whether a file is over it. */
export const dropping = (setOver) => ({
  onDragOver: (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  },
  onDragLeave: (event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) setOver(false);
  },
  onDrop: (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    setOver(false);
    attach(event.dataTransfer.files);
  },
});
