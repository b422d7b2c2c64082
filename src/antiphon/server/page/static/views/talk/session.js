// Session of `/v1/realtime`: sends and receives events.
import { socket } from "../../lib/api.js";

let numEvents = 0;

/** Session whose `onEvent` receives every event, and whose `onClose` is called if the server or the network ends it. */
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

  /** Send an event and return its id, which errors refer to. A closed session drops the event. */
  send(type, fields = {}) {
    numEvents += 1;
    const id = `page-${numEvents}`;
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, event_id: id, ...fields }));
    return id;
  }

  /** Send a frame of sound, an Int16Array at the session's rate. */
  sendSound(frame) {
    const bytes = new Uint8Array(frame.buffer, frame.byteOffset, frame.byteLength);
    this.send("input_audio_buffer.append", { audio: btoa(String.fromCharCode(...bytes)) });
  }

  /** Close the session; no more events are received. */
  close() {
    this.isEnded = true;
    this.socket.close();
  }
}

/** Decode base64 into bytes. */
export function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
  return bytes;
}
