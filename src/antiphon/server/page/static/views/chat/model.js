// The chosen chat model.
import { setting } from "../../lib/settings.js";

export const model = setting("chat.model", "");
