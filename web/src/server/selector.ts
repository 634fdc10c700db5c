// Label selectors, `{service_name="x", region=~"eu.*"}`, and ranges, `now-15m`.

export interface Matcher {
  name: string;
  op: string; // = != =~ !~
  value: string;
}

// A quoted string as in PromQL: escapes as in Go, none in backticks; null if it is invalid.
const ESCAPES: Record<string, string> = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v", "\\": "\\", '"': '"', "'": "'" };
function unquote(text: string): string | null {
  const inner = text.slice(1, -1);
  if (text.startsWith("`")) return inner;
  let valid = true;
  const value = inner.replace(/\\(?:([0-7]{3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/g, (_, octal, byte, short, long, other) => {
    const code = octal ? parseInt(octal, 8) : parseInt(byte ?? short ?? long ?? "", 16);
    const plain = other === undefined ? code <= 0x10ffff ? String.fromCodePoint(code) : undefined : ESCAPES[other];
    valid &&= plain !== undefined;
    return plain ?? "";
  });
  return valid ? value : null;
}

// The matchers of a selector; null if this page cannot read it. The server, which decides, then says what is wrong with it.
const QUOTED = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/.source;
const MATCHER = new RegExp(`^([a-zA-Z_][\\w.]*|${QUOTED})\\s*(=~|!~|!=|=)\\s*(${QUOTED})\\s*(,\\s*|$)`);
export function parseSelector(text: string): Matcher[] | null {
  const body = /^\s*\{([^]*)\}\s*$/.exec(text)?.[1];
  if (body === undefined) return null;
  const matchers: Matcher[] = [];
  let rest = body.trim();
  while (rest) {
    const found = MATCHER.exec(rest);
    if (!found) return null;
    const name = /^["'`]/.test(found[1]) ? unquote(found[1]) : found[1];
    const value = unquote(found[3]);
    if (name === null || value === null) return null;
    matchers.push({ name, op: found[2], value });
    rest = rest.slice(found[0].length);
  }
  return matchers;
}

const formatName = (name: string) => (/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name));

export const formatSelector = (matchers: Matcher[]) =>
  `{${matchers.map(({ name, op, value }) => `${formatName(name)}${op}${JSON.stringify(value)}`).join(", ")}}`;

export const serviceOf = (matchers: Matcher[]) => matchers.find(({ name, op }) => name === "service_name" && op === "=")?.value;

const UNITS: Record<string, number> = { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 };

// "now", "now-15m", or milliseconds since 1970; NaN if it is none of them.
export function parseTime(text: string, now: number): number {
  const found = /^now(?:-(\d+)([smhdw]))?$/.exec(text);
  if (found) return now - (found[1] ? Number(found[1]) * UNITS[found[2]] : 0);
  return /^\d+$/.test(text) ? Number(text) : Date.parse(text);
}

export const PRESETS = ["5m", "15m", "1h", "6h", "24h", "7d", "30d"];

// The selector with one value of a label, or without it.
export function withLabel(matchers: Matcher[], name: string, op: "=" | "!=", value: string): Matcher[] {
  return [...matchers.filter((m) => m.name !== name || (op === "!=" && m.op !== "=")), { name, op, value }];
}
