// One session of `/v1/realtime`: events out, events in.
import { socket } from "../../lib/api.js";

let numEvents = 0;

/** `onEvent` gets every event of the server; `onClose` is called once if the server or the network ends the session. */
export class RealtimeSession {
  constructor(model, { onEvent, onClose }) {
    this.isEnded = false;
    this.socket = socket(`/v1/realtime?model=${encodeURIComponent(model)}`, ["realtime"]);
    this.socket.onmessage = ({ data }) => {
      if (!this.isEnded) onEvent(JSON.parse(data));
    };
    this.socket.onclose = () => {
      if (this.isEnded) return;
      this.isEnded = true;
      onClose();
    };
  }

  /** Returns the event's id, which an error about it has. What is sent to a closed session is dropped. */
  send(type, fields = {}) {
    numEvents += 1;
    const id = `page-${numEvents}`;
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, event_id: id, ...fields }));
    return id;
  }

  /** `frame` is an Int16Array of the session's rate. */
  sendSound(frame) {
    const bytes = new Uint8Array(frame.buffer, frame.byteOffset, frame.byteLength);
    this.send("input_audio_buffer.append", { audio: btoa(String.fromCharCode(...bytes)) });
  }

  /** End it from this side: no more events come. */
  close() {
    this.isEnded = true;
    this.socket.close();
  }
}

/** The bytes of a string of base64. */
export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
  return bytes;
}
