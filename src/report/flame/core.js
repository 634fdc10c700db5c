// Shared by the scripts of the SVG and the pages: the tree, its widths and its texts. Written as a
// module; where scripts are concatenated, tools/embed.py removes import and export.

// Nodes are in depth-first order; end[i] is the first node after the subtree of node i.
export function decode(data) {
  const bytes = base64(data.tree);
  const n = data.nodes;
  const columns = data.types.length * (data.diff ? 2 : 1);
  const tree = {
    n,
    data,
    frame: new Uint32Array(n),
    flags: new Uint8Array(n),
    parent: new Int32Array(n),
    depth: new Uint16Array(n),
    end: new Uint32Array(n),
    self: [],
    total: [],
    maxDepth: 0,
  };
  for (let c = 0; c < columns; c++) {
    tree.self.push(new Float64Array(n));
    tree.total.push(new Float64Array(n));
  }
  const next = reader(bytes);
  let parent = -1;
  for (let i = 0; i < n; i++) {
    if (i > 0) {
      parent = i - 1;
      for (let up = next(); up > 0; up--) parent = tree.parent[parent];
    }
    const frame = next();
    tree.frame[i] = frame >> 2;
    tree.flags[i] = frame & 3;
    tree.parent[i] = parent;
    tree.depth[i] = parent < 0 ? 0 : tree.depth[parent] + 1;
    if (tree.depth[i] > tree.maxDepth) tree.maxDepth = tree.depth[i];
    for (let c = 0; c < columns; c++) tree.self[c][i] = tree.total[c][i] = next();
  }
  for (let i = n - 1; i >= 0; i--) {
    if (!tree.end[i]) tree.end[i] = i + 1;
    const up = tree.parent[i];
    if (up < 0) continue;
    if (!tree.end[up]) tree.end[up] = tree.end[i];
    for (let c = 0; c < columns; c++) tree.total[c][up] += tree.total[c][i];
  }
  tree.isOther = (i) => tree.frame[i] === 1;
  tree.name = (i) => data.names[tree.frame[i]];
  // Derived trees have other nodes: their marks are computed from the noise.
  if (data.marks) tree.marks = markBits(data.marks[0], n);
  return tree;
}

// Decodes n bits, four per hexadecimal digit.
export function markBits(digits, n) {
  return Uint8Array.from({ length: n }, (_, i) => (parseInt(digits[i >> 2], 16) >> (i & 3)) & 1);
}

export function base64(text) {
  const chars = atob(text);
  const bytes = new Uint8Array(chars.length);
  for (let i = 0; i < chars.length; i++) bytes[i] = chars.charCodeAt(i);
  return bytes;
}

// Decodes varints, low bits first; returns doubles, because they may exceed 2^32.
export function reader(bytes) {
  let at = 0;
  return () => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
}

// Half the width of the 95 % interval of a change, from the average event weight of each side; if
// normalized, in units of the right side.
export function halfWidth(values, totals, noise, normalize) {
  const spread = (i) => {
    const [value, all, weight] = [values[i], totals[i], noise[i]];
    const sampled = value * weight + noise[3] * value * value;
    return !normalize || !all ? sampled : (sampled * (1 - value / all) * totals[1] * totals[1]) / (all * all);
  };
  return 1.96 * Math.sqrt(Math.max(0, spread(0) + spread(1)));
}

// The probability that a normal variable is at least this far from zero (Press et al., erfc).
export function twoSided(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + x / 2);
  const terms = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  return t * Math.exp(-x * x + terms.reduceRight((sum, term) => sum * t + term, 0));
}

// Two-sided mid-p value of b successes in n trials with this probability.
export function binomialTwoSided(n, b, share) {
  let term = (1 - share) ** n;
  let upper = 0;
  for (let k = 0; k <= n; k++) {
    upper += k > b ? term : k === b ? term / 2 : 0;
    term *= ((n - k) / (k + 1)) * (share / (1 - share));
  }
  return Math.min(1, 2 * Math.min(upper, 1 - upper));
}

// The probability of this change by chance; src/stats/compare.c has the same test.
export function chance(left, right, [w0, w1, scale, dispersion, uncertainty]) {
  const [a, b] = [left / w0, right / w1];
  const n = a + b;
  const ratio = (scale * w0) / w1;
  const share = ratio / (1 + ratio);
  if (!(n > 0)) return 1;
  const spread = 1 + (dispersion * (scale * scale * left * left + right * right)) / (scale * scale * left * w0 + right * w1);
  const own = (spread * (1 / (1 - share) + 1 / share)) / n;
  const shrink = own / (own + uncertainty) / spread;
  if (n * shrink < 60) return binomialTwoSided(Math.round(n * shrink), Math.round(b * shrink), share);
  return twoSided(((b - n * share) * Math.sqrt(shrink)) / Math.sqrt(n * share * (1 - share)));
}

// Marks which of n changes are beyond noise; on average at most one mark in twenty is false
// (Benjamini and Hochberg).
export function markChanges(left, right, n, noise) {
  const p = Float64Array.from({ length: n }, (_, i) => chance(left[i], right[i], noise));
  const order = Float64Array.from(p).sort();
  let cutoff = -1;
  for (let i = n - 1; i >= 0 && cutoff < 0; i--) if (order[i] * n <= 0.05 * (i + 1)) cutoff = order[i];
  return Uint8Array.from(p, (value) => (value <= cutoff ? 1 : 0));
}

// Widths and positions as shares of the root, for one sample type. byModule: color by module.

export function measure(tree, type, normalize, byModule = false) {
  const { n, data } = tree;
  const w = new Float64Array(n);
  const x = new Float64Array(n);
  const first = data.diff ? 2 * type : type;
  const left = tree.total[first];
  const right = data.diff ? tree.total[first + 1] : null;
  const scale = right && normalize && left[0] && right[0] ? right[0] / left[0] : 1;
  const weight = right ? (i) => left[i] * scale + right[i] : (i) => left[i];
  const all = weight(0) || 1;
  const used = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    w[i] = weight(i) / all;
    const up = tree.parent[i];
    if (up < 0) continue;
    x[i] = x[up] + used[up];
    used[up] += w[i];
  }
  const change = (i) => {
    const l = left[i] * scale;
    const r = right[i];
    return l || r ? (r - l) / Math.max(l, r) : 0;
  };
  const sizes = { type, unit: data.types[type][1], first, scale, w, x, left, right, change, normalize };
  const noise = right && data.noise && data.noise[type];
  const marks = type === 0 && tree.marks ? tree.marks : noise && markChanges(left, right, n, noise);
  sizes.noise = (i) => (noise ? halfWidth([left[i], right[i]], [left[0], right[0]], noise, normalize) : 0);
  sizes.isNoise = (i) => Boolean(marks && !marks[i]);
  sizes.byModule = byModule;
  sizes.colour = new Uint8Array(n);
  for (let i = 0; i < n; i++) sizes.colour[i] = colourOf(tree, sizes, i);
  return sizes;
}

export const DIFF_BOUNDS = [0.02, 0.1, 0.25, 0.5];
export const HUE_SHADES = 3;
export const MUTED = 24;
export const GREY = 27;

export function diffStep(change) {
  let step = 0;
  while (step < 4 && Math.abs(change) >= DIFF_BOUNDS[step]) step++;
  return change < 0 ? 4 - step : 4 + step;
}

// The color index of a node, for the custom properties --d0.. in a diff, else --c0..
export function colourOf(tree, sizes, i) {
  if (sizes.right) {
    return diffStep(sizes.isNoise(i) ? 0 : sizes.change(i));
  }
  if (tree.frame[i] < 2) return GREY;
  const frame = tree.frame[i];
  if (sizes.byModule) return moduleHue(tree.data, frame) * HUE_SHADES + tree.data.shade[frame];
  const group = tree.data.groups[tree.data.group[frame]];
  return (group[1] ? MUTED : group[2] * HUE_SHADES) + tree.data.shade[frame];
}

export function moduleHue(data, frame) {
  let hash = 2166136261;
  for (const c of data.texts[data.module[frame]]) hash = Math.imul(hash ^ c.charCodeAt(0), 16777619);
  return (hash >>> 8) % 8;
}

export const TIME = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9], ["hrs", 3.6e12]];
export const SIZE = ["B", "kB", "MB", "GB", "TB", "PB"].map((label, i) => [label, 1024 ** i]);
export const UNITS = {
  nanosecond: [TIME, 1], ns: [TIME, 1], microsecond: [TIME, 1e3], us: [TIME, 1e3],
  millisecond: [TIME, 1e6], ms: [TIME, 1e6], second: [TIME, 1e9], s: [TIME, 1e9],
  byte: [SIZE, 1], b: [SIZE, 1], kilobyte: [SIZE, 1024], kb: [SIZE, 1024],
  megabyte: [SIZE, 1048576], mb: [SIZE, 1048576],
};

export function formatValue(value, unit) {
  const known = UNITS[unit.toLowerCase()] || UNITS[unit.toLowerCase().replace(/s$/, "")];
  if (!known) {
    const text = Math.round(value).toLocaleString("en-US");
    return unit && unit !== "count" ? text + " " + unit : text;
  }
  const [scales, factor] = known;
  const base = value * factor;
  let best = scales[0];
  for (const scale of scales) if (Math.abs(base) >= scale[1]) best = scale;
  return (base / best[1]).toFixed(2).replace(/\.00$/, "") + best[0];
}

export function formatPercent(share) {
  const percent = 100 * share;
  const size = Math.abs(percent);
  if (size > 0 && size < 0.0005) return "<0.001%";
  return percent.toFixed(size === 0 || size >= 99.995 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3) + "%";
}

export const signed = (value, text) => (value > 0 ? "+" : value < 0 ? "\u2212" : "\u00b1") + text;

// Matches a regular expression if the text is a valid one, else plain text. Ignores case unless the
// text has capitals.
export function matcher(text) {
  const fold = text === text.toLowerCase();
  try {
    const re = new RegExp(text, fold ? "i" : "");
    return (name) => re.test(name);
  } catch {
    const plain = fold ? text.toLowerCase() : text;
    return (name) => (fold ? name.toLowerCase() : name).includes(plain);
  }
}

// frames: 1 for each matching frame. Returns their share within the node `within`. A stack with
// several matches counts once: nothing below a match is added.
export function matchedShare(tree, sizes, frames, within) {
  let share = 0;
  for (let i = within; i < tree.end[within];) {
    if (frames[tree.frame[i]]) {
      share += sizes.w[i];
      i = tree.end[i];
    } else {
      i++;
    }
  }
  return sizes.w[within] ? share / sizes.w[within] : 0;
}

export function matchFrames(tree, test) {
  const frames = new Uint8Array(tree.data.names.length);
  // "all" and "other" are not functions.
  for (let i = 2; i < frames.length; i++) frames[i] = test(tree.data.names[i], i) ? 1 : 0;
  return frames;
}

// The source place of a frame: "src/main.rs:12".
export function placeOf(data, frame) {
  const file = data.texts[data.file[frame]];
  return file && data.line[frame] ? file + ":" + data.line[frame] : file;
}

// The rows of a tooltip: [label, value, more...].
export function describe(tree, sizes, i, zoomed) {
  const { data } = tree;
  const frame = tree.frame[i];
  const rows = [];
  const value = (v) => formatValue(v, sizes.unit);
  const share = (of) => formatPercent(sizes.w[of] ? sizes.w[i] / sizes.w[of] : 0);
  const column = (c) => tree.self[sizes.first + c][i];
  if (sizes.right) {
    const [l, r] = [sizes.left[i], sizes.right[i]];
    const part = (v, all) => formatPercent(all ? v / all : 0);
    const d = r - l * sizes.scale;
    rows.push(["Left", value(l), part(l, sizes.left[0])]);
    rows.push(["Right", value(r), part(r, sizes.right[0])]);
    rows.push(["Change", signed(d, value(Math.abs(d))),
      l ? signed(d, formatPercent(Math.abs(d) / (l * sizes.scale))) : r ? "new" : ""]);
    if (sizes.noise(i)) {
      rows.push(["Noise", "\u00b1" + value(sizes.noise(i)), sizes.isNoise(i) ? "within noise" : "beyond noise"]);
    }
    if (!data.reverse && !tree.isOther(i)) {
      rows.push(["Self", value(column(0)) + " \u2192 " + value(column(1))]);
    }
  } else {
    rows.push(["Total", value(sizes.left[i]), share(0)]);
    if (!data.reverse && !tree.isOther(i)) {
      rows.push(["Self", value(column(0)), formatPercent(sizes.left[0] ? column(0) / sizes.left[0] : 0)]);
    }
  }
  if (i > 0) {
    const note = sizes.right ? "both sides" : "";
    if (sizes.right) rows.push(["Of all", share(0), note]);
    if (zoomed > 0 && zoomed !== i && i > zoomed && i < tree.end[zoomed]) {
      rows.push(["Of zoomed", share(zoomed), note]);
    }
    const up = tree.parent[i];
    if (up > 0 && up !== zoomed) rows.push(["Of parent", share(up), note]);
  }
  const kind = tree.isOther(i)
    ? "smaller branches, merged"
    : ["", "inlined", "inlined in some places"][tree.flags[i]];
  const group = data.groups[data.group[frame]][0];
  const module = data.texts[data.module[frame]];
  return {
    name: tree.name(i),
    kind,
    place: placeOf(data, frame),
    module,
    group: group !== module ? group : "",
    rows,
  };
}

// A tooltip as one line, for screen readers and the SVG's titles.
export function sentence(tip) {
  const rows = tip.rows.map((row) => row[0].toLowerCase() + " " + row.slice(1).filter(Boolean).join(", "));
  return [tip.name + (tip.kind ? " (" + tip.kind + ")" : ""), ...rows].join("; ");
}

// The widest form of a name that fits: whole, its significant end, or truncated. width(text) is in
// px.
export function fitName(data, frame, room, width, widths) {
  const name = data.names[frame];
  if (room < 12) return "";
  // Every letter has at least one pixel, so longer names cannot fit and are not measured.
  if (name.length <= room) {
    if (!widths[frame]) widths[frame] = width(name) + 0.01;
    if (widths[frame] <= room) return name;
  }
  const rest = name.slice(data.short[frame], data.short[frame] + Math.ceil(room));
  const whole = data.short[frame] + rest.length === name.length;
  const size = width(rest);
  if (size <= room && whole) return rest;
  let n = Math.min(rest.length, Math.floor((rest.length * room) / size));
  while (n > 0 && width(cut(rest, n) + "\u2026") > room) n--;
  return n > 1 ? cut(rest, n) + "\u2026" : "";
}

// The first n code units, without splitting a surrogate pair.
export function cut(text, n) {
  const last = text.charCodeAt(n - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? n - 1 : n);
}

// The target of a key from node i: parent, widest child, or neighbor on the same level.
export function walk(tree, sizes, i, to) {
  if (to === "parent") return Math.max(tree.parent[i], 0);
  if (to === "child") {
    let best = i;
    for (let c = i + 1; c < tree.end[i]; c = tree.end[c]) {
      if (sizes.w[c] && (best === i || sizes.w[c] > sizes.w[best])) best = c;
    }
    return best;
  }
  const depth = tree.depth[i];
  if (to === "next") {
    for (let k = tree.end[i]; k < tree.n; k++) if (tree.depth[k] === depth && sizes.w[k]) return k;
  } else {
    for (let k = i - 1; k > 0; k--) if (tree.depth[k] === depth && sizes.w[k]) return k;
  }
  return i;
}

// Describes what was omitted; empty if nothing.
export function omissions(tree, sizes) {
  const { data } = tree;
  const notes = [];
  if (!sizes.left[0] && !(sizes.right && sizes.right[0])) notes.push("no sample has a value above zero");
  if (data.merged) {
    let share = 0;
    for (let i = 1; i < tree.n; i++) if (tree.isOther(i)) share += sizes.w[i];
    const many = data.merged === 1 ? " small branch" : " small branches";
    notes.push(data.merged.toLocaleString("en-US") + many + " (" + formatPercent(share) +
      ") merged into \u201cother\u201d");
  }
  const negative = data.types[sizes.type][2];
  if (negative) notes.push("values below zero (\u2212" + formatValue(negative, sizes.unit) + ") not drawn");
  return notes;
}
