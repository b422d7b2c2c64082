// Draws the plots of a report with uPlot, from the JSON in each plot's element and the style sheet's colours.
const HEIGHT = 300;
const FONT_SIZE = 12;
const NUM_COLOURS = 8;
const DASHES = [[], [7, 4], [2, 4]];
/** Heights of mark labels, as shares of the y axis: labels of close percentiles must not overlap. */
const LEVELS = [0.42, 0.27, 0.12];
/** Maximum characters of a series' label in the tooltip; the legend shows the whole label. */
const LABEL_LENGTH = 24;

const tick = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });
const percent = (digits) => (value) => `${(100 * value).toFixed(digits)}%`;
/** Format a number with three significant digits, and all digits before the decimal point. */
const short = (value) =>
  Math.abs(value) < 99.95
    ? Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 })
    : Math.round(value).toLocaleString("en");
const isSteps = (series) => series.kind === "steps" || series.kind === "bars";
const isDotted = (series) => series.kind === "dots" || series.kind === "dotted";

/** Return ticks at 1, 2 and 5 times each power of ten, or fewer of them to stay within `most`. */
function logTicks(low, high, most) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) powers.push(10 ** power);
  let ticks = [];
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    ticks = powers.flatMap((power) => factors.map((factor) => factor * power)).filter((value) => value >= low && value <= high);
    if (ticks.length <= most) break;
  }
  return ticks.filter((_, index) => index % Math.ceil(ticks.length / most) === 0);
}

/** Return the index of the last of ascending numbers that is not above `value`, or -1. */
function lastUpTo(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Return a series' value at `x`: null between dots, undefined beyond the end of steps. */
function valueAt({ kind, x: xs, y: ys }, x) {
  const index = lastUpTo(xs, x);
  if (kind === "dots" || kind === "dotted") return xs[index] === x ? ys[index] : null;
  if (kind === "steps" || kind === "bars") return ys[Math.max(0, index)];
  if (index < 0 || index === xs.length - 1) return ys[Math.max(0, index)];
  const part = (x - xs[index]) / (xs[index + 1] - xs[index]);
  return ys[index] + part * (ys[index + 1] - ys[index]);
}

class Plot {
  constructor(element) {
    this.element = element;
    this.chart = JSON.parse(element.querySelector("script").textContent);
    this.read = this.chart.series.filter(({ kind }) => kind !== "guide");
    this.draw();
    new ResizeObserver(() => this.uplot.setSize({ width: element.clientWidth, height: HEIGHT })).observe(element);
  }

  /** Draw the plot in the page's current colours. */
  draw() {
    this.uplot?.destroy();
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.seriesColour = (index) => this.colour(`c${index % NUM_COLOURS}`);
    this.font = `${FONT_SIZE}px ${style.fontFamily}`;
    const { x, y, series } = this.chart;
    const scale = ({ low, high, is_log }) => ({ time: false, auto: false, range: [low, high], distr: is_log ? 3 : 1 });
    this.uplot = new uPlot(
      {
        mode: 2,
        width: this.element.clientWidth,
        height: HEIGHT,
        padding: [26, 18, 0, 0],
        legend: { show: false },
        cursor: {
          drag: { x: false, y: false },
          y: false,
          points: { show: false },
          move: (uplot, left, top) => this.moved(uplot, left, top),
        },
        scales: { x: scale(x), y: scale(y) },
        axes: [this.axis(x, "x"), this.axis(y, "y")],
        series: [null, ...series.map((one) => this.series(one))],
        hooks: {
          drawAxes: [() => series.filter((one) => one.low).forEach((one) => this.band(one))],
          draw: [() => this.details()],
          setCursor: [() => this.show()],
        },
      },
      [null, ...series.map((one) => [one.x, isSteps(one) ? [...one.y, one.y.at(-1)] : one.y])],
      this.element,
    );
    this.tip = this.uplot.over.appendChild(document.createElement("div"));
    this.tip.className = "tip";
    this.tip.hidden = true;
  }

  axis({ label, low, high, is_log, is_share }, scale) {
    const format = is_share ? percent(0) : tick;
    const space = scale === "y" ? 34 : 64;
    const size = () => (scale === "y" ? HEIGHT : this.element.clientWidth) - 80;
    const width = (texts) => Math.max(0, ...texts.map((text) => text.length)) * FONT_SIZE * 0.6 + 14;
    return {
      scale,
      label: label + (is_log ? ", logarithmic" : ""),
      labelSize: 22,
      labelFont: this.font,
      font: this.font,
      stroke: this.colour("soft"),
      space,
      ...(is_log && { splits: () => logTicks(low, high, Math.round(size() / space)), filter: (_, values) => values }),
      size: scale === "y" ? (_, texts) => width(texts ?? []) : 28,
      grid: { show: scale === "y", stroke: this.colour("line"), width: 1 },
      ticks: { show: scale === "x", stroke: this.colour("soft"), width: 1, size: 5 },
      border: { show: scale === "x", stroke: this.colour("soft"), width: 1 },
      values: (_, values) => values.map(format),
    };
  }

  series(series) {
    const { kind, index, is_filled } = series;
    const colour = kind === "guide" ? this.colour("soft") : this.seriesColour(index);
    const bars = (uplot) => ({ stroke: null, fill: this.bars(uplot, series) });
    return {
      facets: [{ scale: "x", auto: false }, { scale: "y", auto: false }],
      label: series.label,
      width: kind === "guide" ? 1 : 2,
      stroke: colour,
      fill: kind === "bars" ? `${colour}bf` : is_filled ? `${colour}29` : undefined,
      fillTo: this.chart.y.low,
      dash: kind === "guide" ? [5, 4] : DASHES[Math.floor(index / NUM_COLOURS) % DASHES.length],
      paths: { bars, dots: () => null, steps: uPlot.paths.stepped({ align: 1 }) }[kind] ?? uPlot.paths.linear(),
      points: { show: false },
    };
  }

  bars(uplot, { x, y }) {
    const path = new Path2D();
    const bottom = uplot.valToPos(this.chart.y.low, "y", true);
    for (const [index, height] of y.entries()) {
      const [left, right] = [x[index], x[index + 1]].map((edge) => uplot.valToPos(edge, "x", true));
      const top = uplot.valToPos(height, "y", true);
      path.rect(left + 1, top, Math.max(1, right - left - 2), bottom - top);
    }
    return path;
  }

  /** Fill the area between the lowest and the highest value of each interval. */
  band({ x, low, high, index }) {
    const corners = (values) => values.flatMap((value, at) => [[x[at], value], [x[at + 1], value]]);
    this.onCanvas(this.seriesColour(index), (canvas, position) => {
      canvas.globalAlpha = 0.16;
      canvas.beginPath();
      for (const [a, b] of [...corners(low), ...corners(high).reverse()]) canvas.lineTo(...position(a, b));
      canvas.fill();
    });
  }

  onCanvas(colour, draw) {
    const { ctx: canvas } = this.uplot;
    canvas.save();
    canvas.fillStyle = canvas.strokeStyle = colour;
    canvas.lineWidth = devicePixelRatio;
    canvas.setLineDash([]);
    draw(canvas, (x, y) => [this.uplot.valToPos(x, "x", true), this.uplot.valToPos(y, "y", true)]);
    canvas.restore();
  }

  /** Draw dots, marks, limits and failures over the series. */
  details() {
    const { series, marks = [], limits = [], failures = [], x: xAxis, y: yAxis } = this.chart;
    for (const { x, y, index } of series.filter(isDotted)) x.forEach((value, at) => this.dot(value, y[at], index));
    const labelled = marks.filter((mark) => mark.label);
    labelled.forEach(({ x, y }) => this.line([x, yAxis.low], [x, y], [2, 3]));
    marks.forEach(({ x, y, index }) => this.dot(x, y, index));
    labelled.forEach(({ x, label }, at) => {
      const isLeft = x > this.uplot.posToVal(this.uplot.over.clientWidth * 0.66, "x");
      this.text(label, x, LEVELS[at % LEVELS.length] * yAxis.high, isLeft);
    });
    const inside = limits.filter(({ x }) => x > xAxis.low && x < xAxis.high);
    inside.forEach(({ x, label }, at) => {
      this.line([x, yAxis.low], [x, yAxis.high], [5, 4]);
      const isRightHalf = x > this.uplot.posToVal(this.uplot.over.clientWidth / 2, "x");
      this.text(label, x, yAxis.high, inside.length > 1 ? at === 0 : isRightHalf, 10);
    });
    this.onCanvas(this.colour("bad"), (canvas, position) => {
      const size = 4 * devicePixelRatio;
      canvas.lineWidth = 2 * devicePixelRatio;
      canvas.beginPath();
      for (const time of failures) {
        const [x, top] = position(time, yAxis.high);
        canvas.moveTo(x - size, top);
        canvas.lineTo(x + size, top + 2 * size);
        canvas.moveTo(x + size, top);
        canvas.lineTo(x - size, top + 2 * size);
      }
      canvas.stroke();
    });
  }

  line(from, to, dash) {
    this.onCanvas(this.colour("soft"), (canvas, position) => {
      canvas.setLineDash(dash.map((length) => length * devicePixelRatio));
      canvas.beginPath();
      canvas.moveTo(...position(...from));
      canvas.lineTo(...position(...to));
      canvas.stroke();
    });
  }

  dot(x, y, index) {
    this.onCanvas(this.seriesColour(index), (canvas, position) => {
      canvas.beginPath();
      canvas.arc(...position(x, y), 4 * devicePixelRatio, 0, 2 * Math.PI);
      canvas.fill();
      canvas.lineWidth = 1.5 * devicePixelRatio;
      canvas.strokeStyle = this.colour("paper");
      canvas.stroke();
    });
  }

  /** Draw a label beside a position and `raised` pixels above it, unless it would leave the canvas. */
  text(text, x, y, isLeft, raised = 0) {
    this.onCanvas(this.colour("ink"), (canvas, position) => {
      const [across, up] = position(x, y);
      canvas.font = `600 ${FONT_SIZE * devicePixelRatio}px ${getComputedStyle(document.documentElement).fontFamily}`;
      canvas.textAlign = isLeft ? "right" : "left";
      canvas.lineWidth = 4 * devicePixelRatio;
      canvas.lineJoin = "round";
      canvas.strokeStyle = this.colour("paper");
      const at = [across + (isLeft ? -6 : 6) * devicePixelRatio, up - raised * devicePixelRatio];
      const width = canvas.measureText(text).width;
      if (isLeft ? at[0] < width : at[0] + width > canvas.canvas.width) return;
      canvas.strokeText(text, ...at);
      canvas.fillText(text, ...at);
    });
  }

  /** Return the cursor's position for a pointer at `left`: in charts of dots, the nearest dot. */
  moved(uplot, left, top) {
    if (left < 0) return [left, top];
    this.x = uplot.posToVal(left, "x");
    if (!this.read.every(isDotted)) return [left, top];
    const distance = (value) => Math.abs(uplot.valToPos(value, "x") - left);
    this.x = this.read.flatMap((one) => one.x).reduce((near, value) => (distance(value) < distance(near) ? value : near));
    return [uplot.valToPos(this.x, "x"), top];
  }

  /** Show the values at the cursor in the tooltip. */
  show() {
    const { left } = this.uplot.cursor;
    this.tip.hidden = left < 0;
    if (left < 0) return;
    const { is_share, reading = "{}" } = this.chart.y;
    const rows = [];
    for (const one of this.read) {
      const value = valueAt(one, this.x);
      if (value === null) continue;
      const number = value === undefined ? "ended" : reading.replace("{}", (is_share ? percent(1) : short)(value));
      const { label } = one;
      const name = label.length > LABEL_LENGTH ? `${label.slice(0, LABEL_LENGTH - 1)}…` : label;
      rows.push([one.index, this.read.length > 1 ? `${name}: ${number}` : number]);
    }
    this.tip.replaceChildren(this.heading(this.read[0], this.x), ...rows.map((row) => this.row(...row)));
    const { clientWidth } = this.uplot.over;
    const { offsetWidth } = this.tip;
    const beside = left < clientWidth / 2 ? Math.min(left + 10, clientWidth - offsetWidth) : left - 10 - offsetWidth;
    this.tip.style.left = `${Math.max(0, beside)}px`;
  }

  heading({ kind, x: edges }, x) {
    const heading = document.createElement("b");
    const bin = Math.min(edges.length - 2, Math.max(0, lastUpTo(edges, x)));
    const value = kind === "bars" ? `${short(edges[bin])} to ${short(edges[bin + 1])}` : short(x);
    heading.textContent = (this.chart.x.reading ?? "{}").replace("{}", value);
    return heading;
  }

  row(index, text) {
    const row = document.createElement("div");
    const swatch = row.appendChild(document.createElement("i"));
    swatch.className = `swatch c${index % NUM_COLOURS} d${Math.floor(index / NUM_COLOURS) % DASHES.length}`;
    row.append(text);
    return row;
  }
}

const plots = [...document.querySelectorAll(".plot")].map((element) => new Plot(element));
const redraw = () => plots.forEach((plot) => plot.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// Print in light colours.
for (const [event, isPaper] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => {
    document.documentElement.classList.toggle("paper", isPaper);
    redraw();
  });
}
