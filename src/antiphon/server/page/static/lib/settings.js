// Settings that the browser keeps between visits.
import { effect, signal } from "./ui.js";

const PREFIX = "antiphon.";

/** Return a signal whose value the browser keeps under a name; its first value is `initial`. */
export function setting(name, initial) {
  const kept = signal(read(name, initial));
  let isFirst = true;
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
