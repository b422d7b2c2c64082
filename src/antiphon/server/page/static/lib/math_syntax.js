// Math in Markdown as an extension of marked: $…$, $$…$$, \(…\) and \[…\]. A price such as "$5 and $6" is not math.

const DOLLARS = /^\$\$(?!\$)((?:\\[^]|[^$\\])+?)\$\$(?!\$)/;
const DOLLAR = /^\$(?![\s$])((?:\\[^]|[^$\\\n]|\n(?!\n))*?(?:\\[^]|[^\s$\\]))\$(?![\dA-Z_$])/;
const ROUND = /^\\\(((?:[^\\]|\\(?!\)))+?)\\\)/;
const SQUARE = /^\\\[((?:[^\\]|\\(?!\]))+?)\\\]/;
const BLOCK = /^ {0,3}(?:\$\$(?!\$)((?:\\[^]|[^$\\])+?)\$\$|\\\[((?:[^\\]|\\(?!\]))+?)\\\])[ \t]*(?:\n|$)/;
const BLANK_LINE = /\n[ \t]*\n/;
/** A number before words is an amount of money. Words in math follow a backslash, or stand in braces after one. */
const MONEY = /^\d[^\\]*\b[a-z]{2,}/i;

const inline = {
  name: "math",
  level: "inline",
  start: (src) => src.match(/\$|\\[([]/)?.index,
  tokenizer(src, tokens) {
    for (const [pattern, isDisplay] of [[DOLLARS, true], [DOLLAR, false], [ROUND, false], [SQUARE, true]]) {
      const found = pattern.exec(src);
      if (!found || !found[1].trim() || BLANK_LINE.test(found[1])) continue;
      if (pattern === DOLLAR && (MONEY.test(found[1]) || /\w$/.test(tokens.at(-1)?.raw ?? ""))) continue;
      return { type: "math", raw: found[0], text: found[1].trim(), isDisplay };
    }
    return undefined;
  },
};

const block = {
  name: "mathBlock",
  level: "block",
  start: (src) => src.match(/\n {0,3}(?:\$\$|\\\[)/)?.index,
  tokenizer(src) {
    const found = BLOCK.exec(src);
    const text = (found?.[1] ?? found?.[2] ?? "").trim();
    return text && !BLANK_LINE.test(text) ? { type: "mathBlock", raw: found[0], text, isDisplay: true } : undefined;
  },
};

/**
 * Return the extensions. Math becomes an element with its source as text, and `data-math` says whether it is `inline`
 * or `display`, so that a page without a renderer of math shows the source.
 */
export function mathExtensions(escaped) {
  const element = (name, { raw, isDisplay }) =>
    `<${name} data-math="${isDisplay ? "display" : "inline"}">${escaped(raw.trim())}</${name}>`;
  return [
    { ...inline, renderer: (token) => element("span", token) },
    { ...block, renderer: (token) => `${element("p", token)}\n` },
  ];
}

/** Return the formula in a source with its delimiters. */
export const formulaOf = (source) => source.trim().replace(/^(?:\$\$?|\\[([])|(?:\$\$?|\\[)\]])$/g, "");
