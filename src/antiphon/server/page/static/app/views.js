// Views of the page in the order of the navigation. A view is loaded when it is first opened.
// Its module exports `View`, a component whose `path` is the part of the address after the view's name.

export const VIEWS = [
  // conversations with a language model
  { id: "chat", title: "Chat", icon: "chat", load: () => import("../views/chat/index.js") },
  // text to speech
  { id: "speak", title: "Speak", icon: "speaker", load: () => import("../views/speak/index.js") },
  // recordings and the microphone to text
  { id: "transcribe", title: "Transcribe", icon: "file", load: () => import("../views/transcribe/index.js") },
  // conversations by voice
  { id: "talk", title: "Talk", icon: "microphone", load: () => import("../views/talk/index.js") },
  // models in the catalog, on disk and in memory
  { id: "models", title: "Models", icon: "cube", load: () => import("../views/models/index.js") },
  // the engine's requests, cache and steps
  { id: "engine", title: "Engine", icon: "gauge", load: () => import("../views/engine/index.js") },
];
