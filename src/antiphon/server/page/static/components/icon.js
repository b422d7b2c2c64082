// Icons drawn as outlines in the colour of the surrounding text.
import { html } from "../lib/ui.js";

const PATHS = {
  bars: "M4 10v4M8 6v12M12 9v6M16 4v16M20 10v4",
  branch: "M6 3v18M6 16c7 0 11-2 11-10M12.5 9.5L17 5l4.5 4.5",
  chat: "M4 5h16v11H9l-5 4z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  chevronDown: "M6 9l6 6 6-6",
  chevronLeft: "M15 6l-6 6 6 6",
  chevronRight: "M9 6l6 6-6 6",
  clip: "M8 12.5l6.2-6.2a3.3 3.3 0 0 1 4.7 4.7l-8 8a5 5 0 0 1-7.1-7.1l7.3-7.3",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  cube: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  gauge: "M4 17a8 8 0 1 1 16 0M12 17l4-6",
  key: "M14 10a4 4 0 1 0-4 4M12.5 12.5L20 20M17 17l2-2",
  list: "M4 6h16M4 12h16M4 18h10",
  menu: "M4 6h16M4 12h16M4 18h16",
  microphone: "M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3zM5 11a7 7 0 0 0 14 0M12 18v3",
  microphoneOff: "M9 9v2a3 3 0 0 0 5 2.2M15 10V6a3 3 0 0 0-5.6-1.5M5 11a7 7 0 0 0 11 5.7M19 11a7 7 0 0 1-.6 2.8M12 18v3M4 3l16 18",
  minus: "M5 12h14",
  moon: "M19 14A8 8 0 1 1 10 5a6.5 6.5 0 0 0 9 9z",
  more: "M5 11.2a.8.8 0 1 0 .01 0zM12 11.2a.8.8 0 1 0 .01 0zM19 11.2a.8.8 0 1 0 .01 0z",
  pause: "M8 5v14M16 5v14",
  pin: "M9 3h6l-1 7 3 3H7l3-3zM12 13v8",
  play: "M7 4l12 8-12 8z",
  plus: "M12 5v14M5 12h14",
  redo: "M20 4v5h-5M19.2 9A8 8 0 1 0 20 13.5",
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l4.5 4.5",
  send: "M12 20V5M6 11l6-6 6 6",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  speaker: "M4 9v6h4l5 4V5L8 9zM17 9a4 4 0 0 1 0 6M19.5 6.5a8 8 0 0 1 0 11",
  stop: "M7 7h10v10H7z",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M19 5l-1.5 1.5M6.5 17.5L5 19",
  tool: "M14.5 6a4.5 4.5 0 0 1 5.7-1.2L17 8l-1 3 3-1 3-3a4.5 4.5 0 0 1-6 6L8 21l-5-5 8-8a4.5 4.5 0 0 1 3.5-2z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  waves: "M3 12h2l2-6 3 13 3-15 3 11 2-3h3",
};

export function Icon({ name, size = 18 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}

/** Button with an icon only; `label` is its accessible name and its tooltip. */
export function IconButton({ icon, label, kind = "", size, ...rest }) {
  return html`<button type="button" class=${`icon-button ${kind}`} title=${label} aria-label=${label} ...${rest}>
    <${Icon} name=${icon} size=${size} />
  </button>`;
}
