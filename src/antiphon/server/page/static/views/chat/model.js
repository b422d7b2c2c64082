// The model that answers.
import { setting } from "../../lib/settings.js";

export const model = setting("chat.model", "");
