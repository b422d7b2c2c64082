// Calculator for arithmetic expressions, which are parsed rather than run as code.

const FUNCTIONS = {
  abs: Math.abs, ceil: Math.ceil, cos: Math.cos, exp: Math.exp, floor: Math.floor, ln: Math.log, log: Math.log10,
  round: Math.round, sin: Math.sin, sqrt: Math.sqrt, tan: Math.tan, min: Math.min, max: Math.max,
};
const CONSTANTS = { pi: Math.PI, e: Math.E };
const TOKEN = /\s*(?:(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)|([a-z]+)|(\*\*|[-+*/%^(),]))/iy;
const MAX_LENGTH = 1000;

/** Compute an expression such as `2 * (3 + sqrt(16)) ^ 2`. Throws an Error that names the fault. */
export function calculate(expression) {
  if (expression.length > MAX_LENGTH) throw new Error(`the expression is longer than ${MAX_LENGTH} characters`);
  const parser = new Parser(tokensOf(expression));
  const value = parser.sum();
  if (parser.next() !== undefined) throw new Error(`unexpected ${parser.next().text}`);
  if (!Number.isFinite(value)) throw new Error("the result is not a number");
  return Number(value.toPrecision(15));
}

function tokensOf(text) {
  const tokens = [];
  const source = text.replace(/[×·]/g, "*").replace(/÷/g, "/").replace(/−/g, "-").replace(/(\d),(?=\d{3}\b)/g, "$1");
  TOKEN.lastIndex = 0;
  while (source.slice(TOKEN.lastIndex).trim()) {
    const start = TOKEN.lastIndex;
    const found = TOKEN.exec(source);
    if (!found) throw new Error(`cannot read ${source.slice(start).trim().slice(0, 20)}`);
    const [, number, name, sign] = found;
    tokens.push({ text: number ?? name ?? sign, number: number === undefined ? null : Number(number), name: name?.toLowerCase() });
  }
  return tokens;
}

class Parser {
  constructor(tokens) {
    this.tokens = tokens;
    this.at = 0;
  }

  next() {
    return this.tokens[this.at];
  }

  accept(...signs) {
    const text = this.next()?.text;
    if (!signs.includes(text)) return null;
    this.at += 1;
    return text;
  }

  sum() {
    let value = this.product();
    for (let sign; (sign = this.accept("+", "-")); ) {
      const right = this.product();
      value = sign === "+" ? value + right : value - right;
    }
    return value;
  }

  product() {
    let value = this.signed();
    for (let sign; (sign = this.accept("*", "/", "%")); ) {
      const right = this.signed();
      value = sign === "*" ? value * right : sign === "/" ? value / right : value % right;
    }
    return value;
  }

  signed() {
    const sign = this.accept("-", "+");
    if (sign) return sign === "-" ? -this.signed() : this.signed();
    return this.power();
  }

  power() {
    const base = this.single();
    return this.accept("^", "**") ? base ** this.signed() : base;
  }

  single() {
    const token = this.next();
    if (token === undefined) throw new Error("the expression ends too early");
    this.at += 1;
    if (token.number !== null) return token.number;
    if (token.text === "(") return this.closed(this.sum());
    if (Object.hasOwn(CONSTANTS, token.name ?? "")) return CONSTANTS[token.name];
    if (Object.hasOwn(FUNCTIONS, token.name ?? "")) return this.called(FUNCTIONS[token.name], token.name);
    throw new Error(`unexpected ${token.text}`);
  }

  called(run, name) {
    if (!this.accept("(")) throw new Error(`${name} needs (`);
    const values = [this.sum()];
    while (this.accept(",")) values.push(this.sum());
    return this.closed(run(...values));
  }

  closed(value) {
    if (!this.accept(")")) throw new Error("a ) is missing");
    return value;
  }
}
