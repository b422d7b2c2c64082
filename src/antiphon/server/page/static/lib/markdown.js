// Markdown as sanitized HTML, block by block, so that only the end of a growing text is parsed again.
import { Marked } from "../vendor/marked.js";
import { mathExtensions } from "./math_syntax.js";
import "../vendor/purify.js";

const { DOMPurify } = globalThis;

const TAGS =
  "a b blockquote br code del em h3 hr i kbd li mark ol p pre s span strong sub sup table tbody td th thead tr u ul".split(" ");
const ATTRIBUTES = ["align", "data-lang", "data-level", "data-math", "data-open", "rel", "start", "target", "title"];
const ALLOWED = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", ...ATTRIBUTES],
  ADD_URI_SAFE_ATTR: ATTRIBUTES, // they contain no addresses
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|tel:)/i,
};
/** HTML tags that take effect; all other HTML is shown as text. */
const PLAIN_HTML = /^<(?:\/?(?:b|i|s|u|em|strong|del|sub|sup|kbd|mark)|br *\/?)>$/i;

const escaped = (text) =>
  text.replace(/[&<>"]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]);

const linkTo = (href, more, content) =>
  `<a href="${escaped(href)}"${more} target="_blank" rel="noopener noreferrer">${content}</a>`;

/** Return whether a code block has an opening fence and no closing one. */
function isFenceOpen(raw) {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return false;
  const last = raw.trimEnd().split("\n").slice(1).at(-1)?.trim() ?? "";
  return last.length < fence.length || last !== fence[0].repeat(last.length);
}

const marked = new Marked({
  gfm: true,
  extensions: mathExtensions(escaped),
  renderer: {
    // `data-open` marks code whose end has not arrived.
    code({ raw, text, lang }) {
      const name = (lang ?? "").trim().split(/\s/)[0];
      const open = isFenceOpen(raw) ? ' data-open=""' : "";
      return `<pre data-lang="${escaped(name)}"${open}><code>${escaped(text)}\n</code></pre>`;
    },
    // All headings of an answer are h3, below the message's own heading; styles show their level.
    heading({ tokens, depth }) {
      return `<h3 data-level="${depth}">${this.parser.parseInline(tokens)}</h3>`;
    },
    // Images become links, because the page loads nothing from other servers.
    image({ href, text }) {
      return linkTo(href, "", escaped(text || href));
    },
    link({ href, title, tokens }) {
      return linkTo(href, title ? ` title="${escaped(title)}"` : "", this.parser.parseInline(tokens));
    },
    html({ text }) {
      return PLAIN_HTML.test(text.trim()) ? text : escaped(text);
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

const lex = (text) => marked.lexer(text);
const normalised = (text) => text.replace(/\r\n?/g, "\n");

const blockOf = (id, token) => ({ id, html: DOMPurify.sanitize(marked.parser([token]), ALLOWED) });

/**
 * Growing Markdown text. `update` takes the whole text so far and returns its blocks `{id, html}`. A block is final and
 * stays the same object once a complete line of the next block has arrived. A text that does not continue the previous
 * text is parsed from its beginning.
 */
export class GrowingMarkdown {
  #text = "";
  #final = [];
  #numFinal = 0; // characters in final blocks
  #numLines = 0; // characters in complete lines already parsed

  update(source) {
    const text = normalised(source);
    if (!text.startsWith(this.#text)) {
      this.#final = [];
      this.#numFinal = this.#numLines = 0;
    }
    this.#text = text;
    const numLines = text.lastIndexOf("\n") + 1;
    if (numLines > this.#numLines) this.#finish(numLines);
    const open = lex(text.slice(this.#numFinal)).filter((token) => token.type !== "space");
    return [...this.#final, ...open.map((token, index) => blockOf(this.#final.length + index, token))];
  }

  /** Find blocks that are final, by complete lines only: `2` may yet become the next item of the list above it. */
  #finish(numLines) {
    this.#numLines = numLines;
    const tokens = lex(this.#text.slice(this.#numFinal, numLines));
    const numOpen = tokens.at(-1)?.type === "space" ? 2 : 1; // a list may continue after an empty line
    for (const token of tokens.slice(0, Math.max(0, tokens.length - numOpen))) {
      this.#numFinal += token.raw.length;
      if (token.type !== "space") this.#final.push(blockOf(this.#final.length, token));
    }
  }
}

const SILENT = ["code", "table", "hr", "html", "space", "def", "mathBlock"];
const INLINE = ["math", "text", "escape", "codespan", "strong", "em", "del", "link", "image"];

/** Return the words of a Markdown text to read aloud: without code, tables, displayed math and addresses. */
export function plainText(source) {
  const words = (token) => {
    if (SILENT.includes(token.type)) return "";
    if (token.type === "br") return "\n";
    if (token.type === "math") return token.text.replace(/[\\{}$]/g, " ").trim();
    const inner = token.items ?? token.tokens;
    const text = inner ? inner.map(words).join("") : unescaped(token.text ?? "");
    return INLINE.includes(token.type) ? text : `${text}\n`;
  };
  return lex(normalised(source)).map(words).join("").replace(/\n{2,}/g, "\n").trim();
}

const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => NAMED[name]);
