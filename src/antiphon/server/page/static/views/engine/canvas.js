// Canvas as wide as its container, drawn again when its size, its data or the theme changes.
import { html, useEffect, useLayoutEffect, useRef } from "../../lib/ui.js";
import { colours } from "./colours.js";

/** `draw(context, width, height)` uses CSS pixels; `setUp(canvas, redraw)` adds listeners and returns their removal. */
export function Canvas({ height, draw, setUp, label, data, ...rest }) {
  const element = useRef(null);
  const drawing = useRef(draw);
  drawing.current = draw;
  const redraw = useRef(null);
  colours.value;
  useLayoutEffect(() => {
    const canvas = element.current;
    let frame = 0;
    const paint = () => {
      frame = 0;
      const ratio = devicePixelRatio || 1;
      const { clientWidth: width, clientHeight: tall } = canvas;
      if (!width) return;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(tall * ratio);
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, tall);
      drawing.current(context, width, tall);
    };
    redraw.current = () => (frame ||= requestAnimationFrame(paint));
    const observer = new ResizeObserver(redraw.current);
    observer.observe(canvas);
    const takeAway = setUp?.(canvas, redraw.current);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      takeAway?.();
    };
  }, []);
  useEffect(() => {
    redraw.current();
  }); // after every render
  return html`<canvas ref=${element} style=${{ height: `${height}px` }} aria-label=${label} ...${rest}></canvas>`;
}
