// Highlighting of code. The highlighter and the grammars of languages are loaded when a message has code in them.
import "../vendor/purify.js";

const { DOMPurify } = globalThis;

/** Grammars by name, each with the languages that may be embedded in it. */
const EMBEDDED = { xml: ["css", "javascript"], markdown: ["xml"] };
const NAMES = {
  bash: "sh shell zsh console shellsession",
  c: "h",
  cpp: "c++ cc cxx hpp",
  csharp: "cs c#",
  css: "scss less",
  diff: "patch",
  dockerfile: "docker",
  go: "golang",
  ini: "toml cfg conf",
  java: "",
  javascript: "js jsx mjs cjs node",
  json: "jsonc json5 jsonl",
  kotlin: "kt kts",
  markdown: "md",
  php: "",
  python: "py python3 pycon",
  ruby: "rb",
  rust: "rs",
  sql: "sqlite postgresql mysql",
  swift: "",
  typescript: "ts tsx",
  xml: "html xhtml svg vue",
  yaml: "yml",
};
const GRAMMARS = new Map(
  Object.entries(NAMES).flatMap(([grammar, others]) => [grammar, ...others.split(" ")].map((name) => [name, grammar])),
);
GRAMMARS.delete("");

/** Maximum characters of code that is highlighted: longer code would delay the page. */
const MAX_CHARACTERS = 50_000;
const MAX_CACHED = 60;

let engine = null; // highlight.js once it is loaded
const loading = new Map(); // promises by grammar
const cached = new Map(); // highlighted code by grammar and text, the latest last

/** Return the grammar for the name of a language in a message, or undefined. */
export const grammarOf = (name) => GRAMMARS.get(name.toLowerCase());

export const isLoaded = (grammar) => Boolean(engine?.getLanguage(grammar));

/** Load a grammar. Resolves to false if its file could not be loaded. */
export function loadGrammar(grammar) {
  if (!loading.has(grammar)) {
    const ended = load(grammar).catch(() => false);
    loading.set(grammar, ended);
    ended.then((isThere) => isThere || loading.delete(grammar));
  }
  return loading.get(grammar);
}

async function load(grammar) {
  await Promise.all((EMBEDDED[grammar] ?? []).map(loadGrammar));
  const [core, rules] = await Promise.all([
    import("../vendor/highlight/core.js"),
    import(`../vendor/highlight/${grammar}.js`),
  ]);
  engine ??= core.default;
  engine.registerLanguage(grammar, rules.default);
  return true;
}

/** Return highlighted code as a DocumentFragment of spans with classes, or null. The grammar must be loaded. */
export function highlighted(text, grammar) {
  if (text.length > MAX_CHARACTERS) return null;
  const key = `${grammar}\n${text}`;
  let html = cached.get(key);
  cached.delete(key);
  html ??= engine.highlight(text, { language: grammar, ignoreIllegals: true }).value;
  cached.set(key, html);
  if (cached.size > MAX_CACHED) cached.delete(cached.keys().next().value);
  return DOMPurify.sanitize(html, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true });
}
