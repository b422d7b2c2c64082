// Settings that the browser keeps between visits.
import { effect, signal } from "./ui.js";

const PREFIX = "antiphon.";

/**
 * Return a signal whose value the browser keeps under a name; its first value is `initial`. A change of a setting that
 * `isShared` is seen in other open tabs.
 */
export function setting(name, initial, { isShared = false } = {}) {
  const kept = signal(read(name, initial));
  let isFirst = true;
  if (isShared) {
    window.addEventListener("storage", ({ key }) => {
      if (key === PREFIX + name) kept.value = read(name, initial);
    });
  }
  effect(() => {
    const value = kept.value;
    if (!isFirst) write(name, value);
    isFirst = false;
  });
  return kept;
}

function read(name, initial) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? initial : JSON.parse(text);
  } catch {
    return initial; // storage is blocked, or its content is not ours
  }
}

function write(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Storage is full or blocked: the setting lasts until the page is closed.
  }
}
