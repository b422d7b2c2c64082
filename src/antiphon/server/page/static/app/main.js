// Entry point of the page.
import { html, render } from "../lib/ui.js";
import { takeTicketFromAddress } from "../lib/keys.js";
import { watchConnection } from "../lib/connection.js";
import { watchModels } from "../lib/models.js";
import { watchAddress } from "./router.js";
import { Shell } from "./shell.js";
import { applyTheme } from "./theme.js";

takeTicketFromAddress();
watchAddress();
applyTheme();
watchConnection();
watchModels();
const place = document.getElementById("app");
place.replaceChildren();
render(html`<${Shell} />`, place);
