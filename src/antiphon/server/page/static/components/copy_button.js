// Button that copies text and confirms it.
import { html, useState } from "../lib/ui.js";
import { announce } from "../lib/announce.js";
import { IconButton } from "./icon.js";

/** Copy text, even if the page has no clipboard API because it was loaded over plain HTTP. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied");
}

/** Button that copies the result of the function `text`, called when the button is pressed. */
export function CopyButton({ text, label = "Copy", ...rest }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await copyText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<${IconButton} icon=${isDone ? "check" : "copy"} label=${isDone ? "Copied" : label} onClick=${copy} ...${rest} />`;
}
