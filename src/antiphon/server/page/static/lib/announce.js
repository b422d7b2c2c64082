// Announcements for screen readers, for changes that the user would otherwise miss.
import { signal } from "./ui.js";

/** Text of the shell's live region. */
export const announced = signal("");

export function announce(text) {
  announced.value = "";
  requestAnimationFrame(() => (announced.value = text)); // repeated words are announced again
}
