// Words for screen readers: said once, when the user would otherwise miss a change.
import { signal } from "./ui.js";

/** What the shell's live region holds. */
export const announced = signal("");

export function announce(text) {
  announced.value = "";
  requestAnimationFrame(() => (announced.value = text)); // the same words again are a change too
}
