// Markdown as safe HTML, block by block, so that a text that grows is parsed at its end only.
import { Marked } from "../vendor/marked.js";
import "../vendor/purify.js";

const { DOMPurify } = globalThis;

const TAGS =
  "a b blockquote br code del em h3 hr i kbd li mark ol p pre s strong sub sup table tbody td th thead tr u ul".split(" ");
const ATTRIBUTES = ["align", "data-lang", "data-level", "rel", "start", "target", "title"];
const ALLOWED = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", ...ATTRIBUTES],
  ADD_URI_SAFE_ATTR: ATTRIBUTES, // they hold no address
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|tel:)/i,
};
/** HTML in a text is shown as it is written, except for these. */
const PLAIN_HTML = /^<(?:\/?(?:b|i|s|u|em|strong|del|sub|sup|kbd|mark)|br *\/?)>$/i;

const escaped = (text) =>
  text.replace(/[&<>"]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]);

const linkTo = (href, more, content) =>
  `<a href="${escaped(href)}"${more} target="_blank" rel="noopener noreferrer">${content}</a>`;

const marked = new Marked({
  gfm: true,
  renderer: {
    code({ text, lang }) {
      const name = (lang ?? "").trim().split(/\s/)[0];
      return `<pre data-lang="${escaped(name)}"><code>${escaped(text)}\n</code></pre>`;
    },
    // Headings of an answer are all below the message's own; their size says their level.
    heading({ tokens, depth }) {
      return `<h3 data-level="${depth}">${this.parser.parseInline(tokens)}</h3>`;
    },
    // The page loads nothing from elsewhere: an image is a link to it.
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
 * A text that grows. `update` takes the whole text so far and returns its blocks `{id, html}`; a block that a complete
 * line of another one follows is final and keeps its object. A text that is no continuation is parsed anew.
 */
export class GrowingMarkdown {
  #text = "";
  #final = [];
  #numFinal = 0; // characters in final blocks
  #numLines = 0; // characters in complete lines that were looked at

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

  /** Only complete lines decide what is final: `2` may become the next item of a list above it. */
  #finish(numLines) {
    this.#numLines = numLines;
    const tokens = lex(this.#text.slice(this.#numFinal, numLines));
    const numOpen = tokens.at(-1)?.type === "space" ? 2 : 1; // a list may go on after an empty line
    for (const token of tokens.slice(0, Math.max(0, tokens.length - numOpen))) {
      this.#numFinal += token.raw.length;
      if (token.type !== "space") this.#final.push(blockOf(this.#final.length, token));
    }
  }
}

const SILENT = ["code", "table", "hr", "html", "space", "def"];
const INLINE = ["text", "escape", "codespan", "strong", "em", "del", "link", "image"];

/** The words of a Markdown text, as they are read aloud: without code, tables and addresses. */
export function plainText(source) {
  const words = (token) => {
    if (SILENT.includes(token.type)) return "";
    if (token.type === "br") return "\n";
    const inner = token.items ?? token.tokens;
    const text = inner ? inner.map(words).join("") : unescaped(token.text ?? "");
    return INLINE.includes(token.type) ? text : `${text}\n`;
  };
  return lex(normalised(source)).map(words).join("").replace(/\n{2,}/g, "\n").trim();
}

const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => NAMED[name]);
