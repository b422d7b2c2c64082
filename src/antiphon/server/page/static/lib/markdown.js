// Markdown as safe HTML, block by block, so that a text that grows is parsed at its end only.
import { Marked } from "../vendor/marked.js";
import DOMPurify from "../vendor/purify.js";

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."a b blockquote br code dd del details div dl dt em h3 hr i kbd li mark ol p pre s span strong sub summary sup".split(" "),
    ..."table tbody td tfoot th thead tr u ul".split(" "),
  ],
  ALLOWED_ATTR: ["align", "colspan", "data-lang", "data-level", "href", "open", "rel", "rowspan", "start", "target", "title"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|tel:|#)/i,
};

const escaped = (text) =>
  text.replace(/[&<>"]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[character]);

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
      return `<a href="${escaped(href)}">${escaped(text || href)}</a>`;
    },
    link({ href, title, tokens }) {
      const tip = title ? ` title="${escaped(title)}"` : "";
      return `<a href="${escaped(href)}"${tip} target="_blank" rel="noopener noreferrer">${this.parser.parseInline(tokens)}</a>`;
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
 * A text that grows. `update` takes the whole text so far and returns its blocks `{id, html}`; a block that another one
 * follows is final and keeps its object. A text that is not a continuation is parsed anew.
 */
export class GrowingMarkdown {
  #text = "";
  #numFinal = 0; // characters in final blocks
  #final = [];
  #last = [];

  update(source) {
    const text = normalised(source);
    if (text === this.#text) return [...this.#final, ...this.#last];
    if (!text.startsWith(this.#text)) {
      this.#final = [];
      this.#numFinal = 0;
    }
    this.#text = text;
    const tokens = lex(text.slice(this.#numFinal));
    const numOpen = tokens.at(-1)?.type === "space" ? 2 : 1; // a list may go on after an empty line
    const end = Math.max(0, tokens.length - numOpen);
    for (const token of tokens.slice(0, end)) {
      this.#numFinal += token.raw.length;
      if (token.type !== "space") this.#final.push(blockOf(this.#final.length, token));
    }
    const open = tokens.slice(end).filter((token) => token.type !== "space");
    this.#last = open.map((token, index) => blockOf(this.#final.length + index, token));
    return [...this.#final, ...this.#last];
  }
}

/** The words of a Markdown text, as they are read aloud: without code, tables and addresses. */
export function plainText(source) {
  const parts = [];
  const walk = (tokens) => {
    for (const token of tokens) {
      if (token.type === "code" || token.type === "table" || token.type === "hr" || token.type === "html") continue;
      if (token.type === "br" || token.type === "space") parts.push("\n");
      else if (token.type === "list") token.items.forEach((item) => walk(item.tokens));
      else if (token.tokens) walk(token.tokens);
      else if (token.type === "codespan" || token.type === "text" || token.type === "escape") parts.push(token.text);
      if (token.type === "paragraph" || token.type === "heading" || token.type === "text") parts.push(token.block ? "\n" : "");
      if (token.type === "paragraph" || token.type === "heading") parts.push("\n");
    }
  };
  walk(lex(normalised(source)));
  return unescaped(parts.join("")).replace(/\n{2,}/g, "\n").trim();
}

const unescaped = (text) =>
  text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name]);
