// Light or dark theme: the system's, or the user's choice.
import { media } from "../lib/media.js";
import { effect } from "../lib/ui.js";
import { setting } from "../lib/settings.js";

const dark = media("(prefers-color-scheme: dark)");

/** `system`, `light` or `dark`. */
export const theme = setting("theme", "system");

export const isDark = () => (theme.value === "system" ? dark.value : theme.value === "dark");

/** Switch to the other theme. If the system has that theme too, store `system`, so that the page follows the system. */
export function switchTheme() {
  const wanted = isDark() ? "light" : "dark";
  theme.value = wanted === (dark.value ? "dark" : "light") ? "system" : wanted;
}

export function applyTheme() {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}
