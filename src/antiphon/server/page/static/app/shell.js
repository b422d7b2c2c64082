// Frame around every view: navigation, the server's state, and the dialog for a key.
import { html, useEffect, useState } from "../lib/ui.js";
import { announced } from "../lib/announce.js";
import { hrefOf } from "../lib/navigate.js";
import { Icon, IconButton } from "../components/icon.js";
import { Notice } from "../components/notice.js";
import { KeyDialog } from "./key_dialog.js";
import { route } from "./router.js";
import { StatusBanner, StatusDot } from "./status.js";
import { isDark, switchTheme } from "./theme.js";
import { VIEWS } from "./views.js";

export function Shell() {
  const { view, path } = route.value;
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Sidebar} current=${view} />
    <main id="main" class="main" tabindex="-1" aria-label=${view.title}>
      <${StatusBanner} />
      <${LoadedView} key=${view.id} view=${view} path=${path} />
    </main>
    <p class="visually-hidden" role="log" aria-live="polite">${announced}</p>
    <${KeyDialog} />
  </div>`;
}

function skip(event) {
  event.preventDefault(); // the address after the # belongs to the view
  document.getElementById("main").focus();
}

function Sidebar({ current }) {
  const label = isDark() ? "Light colours" : "Dark colours";
  return html`<header class="sidebar">
    <p class="brand"><span class="brand-mark" aria-hidden="true"><${Icon} name="bars" /></span><span>Antiphon</span></p>
    <nav class="nav" aria-label="Views">
      <ul>
        ${VIEWS.map(
          (view) => html`<li key=${view.id}>
            <a href=${hrefOf(view.id)} aria-current=${view === current ? "page" : undefined}>
              <${Icon} name=${view.icon} /><span>${view.title}</span>
            </a>
          </li>`,
        )}
      </ul>
    </nav>
    <div class="sidebar-foot">
      <${StatusDot} />
      <${IconButton} icon=${isDark() ? "sun" : "moon"} label=${label} onClick=${switchTheme} />
    </div>
  </header>`;
}

const loaded = new Map();

function LoadedView({ view, path }) {
  const [module, setModule] = useState(loaded.get(view.id));
  const [error, setError] = useState(null);
  useEffect(() => {
    document.title = `${view.title} · Antiphon`;
    if (module) return;
    view.load().then(
      (found) => {
        loaded.set(view.id, found);
        setModule(found);
      },
      (problem) => setError(problem),
    );
  }, []);
  if (error) {
    return html`<${Notice} kind="error">
      This view could not be loaded. <button type="button" class="link" onClick=${() => location.reload()}>Reload the page</button>
    <//>`;
  }
  return module ? html`<div class=${`view view-${view.id}`}><${module.View} path=${path} /></div>` : null;
}
