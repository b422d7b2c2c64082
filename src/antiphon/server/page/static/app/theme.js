// Light or dark: as the system has it, or as the user chose.
import { media } from "../lib/media.js";
import { effect } from "../lib/ui.js";
import { setting } from "../lib/settings.js";

const dark = media("(prefers-color-scheme: dark)");

/** `system`, `light` or `dark`. */
export const theme = setting("theme", "system");

export const isDark = () => (theme.value === "system" ? dark.value : theme.value === "dark");

/** The opposite of what is shown; what the system has is `system` again, so that the page follows it. */
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
