// Formulas drawn by KaTeX, which is loaded with its style sheet and fonts when a message has a formula.
import "../vendor/purify.js";

const { DOMPurify } = globalThis;

/** Reject commands that link, load images or set attributes. */
const distrust = ({ command }) => {
  throw new Error(`${command} is not allowed`);
};
/** Options under which a mistake, or a command that could do harm, is an exception. */
const SAFE = { throwOnError: true, trust: distrust, strict: "ignore", maxSize: 20, maxExpand: 200 };
/** Maximum characters of a formula: longer text in delimiters is shown as its source. */
const MAX_CHARACTERS = 5000;
const MAX_CACHED = 200;

let katex = null;
let loading = null;
const cached = new Map(); // drawn formulas by source, the latest last; null for a source with a mistake

export const isLoaded = () => katex !== null;

/** Load KaTeX. Resolves to false if a file could not be loaded. */
export function loadMath() {
  loading ??= Promise.all([import("../vendor/katex/katex.js"), loadStyles()]).then(
    () => {
      katex = globalThis.katex;
      return true;
    },
    () => {
      loading = null;
      return false;
    },
  );
  return loading;
}

function loadStyles() {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("../vendor/katex/katex.css", import.meta.url).href;
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error("the styles of math could not be loaded"));
    };
    document.head.prepend(link); // before the page's own styles, which adapt it
  });
}

/** Return an element with a formula, or null if its source should be shown instead. KaTeX must be loaded. */
export function drawn(formula, isDisplay) {
  if (formula.length > MAX_CHARACTERS) return null;
  const key = `${isDisplay}\n${formula}`;
  const known = cached.has(key) ? cached.get(key) : draw(formula, isDisplay);
  cached.delete(key);
  cached.set(key, known);
  if (cached.size > MAX_CACHED) cached.delete(cached.keys().next().value);
  return known && known.cloneNode(true);
}

/**
 * Draw a formula twice: for the eye as KaTeX's own nodes, whose styles the content security policy allows because they
 * are set by script, and for screen readers as sanitized MathML.
 */
function draw(formula, isDisplay) {
  try {
    const place = document.createElement("span");
    katex.render(formula, place, { ...SAFE, displayMode: isDisplay, output: "html" });
    const told = katex.renderToString(formula, { ...SAFE, displayMode: isDisplay, output: "mathml" });
    const plain = told.replace(/ style="[^"]*"/g, ""); // the policy forbids them; quotes in texts are escaped
    const mathml = DOMPurify.sanitize(plain, { USE_PROFILES: { mathMl: true }, RETURN_DOM_FRAGMENT: true });
    const spoken = document.createElement("span");
    spoken.className = "visually-hidden";
    spoken.append(...mathml.querySelectorAll("math"));
    place.prepend(spoken);
    return place;
  } catch {
    return null;
  }
}
