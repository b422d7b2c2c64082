// Behaviour of text areas for questions.
import { useLayoutEffect, useRef } from "../../../lib/ui.js";

export const canHover = matchMedia("(hover: hover)");

/** Return whether a key sends: Enter without Shift, except on touch screens. */
export function isSending(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && canHover.matches;
}

/** Fit a text area's height to its text; the style sheet limits the height. */
export function useGrowth(text) {
  const area = useRef(null);
  useLayoutEffect(() => {
    area.current.style.height = "auto";
    area.current.style.height = `${area.current.scrollHeight + 2}px`;
  }, [text]);
  return area;
}
