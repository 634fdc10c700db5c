// The page: state, input, and everything around the canvas.
const byId = (id) => document.getElementById(id);
const tree = decode(JSON.parse(byId("data").textContent));
const { data } = tree;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const night = matchMedia("(prefers-color-scheme: dark)");

const state = {
  type: 0,
  normalise: Boolean(data.normalise),
  blue: false,
  flip: Boolean(data.flip),
  theme: "",
  zoom: 0,
  trail: [], // nodes that were zoomed before
  view: { from: 0, width: 1 }, // what the canvas shows, in shares of the root
  hover: -1,
  current: -1, // where the keyboard is
  match: null, // frames found, 1 each
  picked: -1, // the frame that was picked in the table
};
let sizes = measure(tree, state.type, state.normalise);
const graph = canvasGraph(byId("canvas"), byId("scroll"), byId("space"), tree, state, () => sizes);

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// Zoom: the view glides to the frame unless the system asks for stillness.
let gliding = 0;
function glide(to) {
  cancelAnimationFrame(gliding);
  const from = { ...state.view };
  const start = performance.now();
  const length = still.matches ? 0 : 180;
  const frame = (now) => {
    const t = length ? Math.min(1, (now - start) / length) : 1;
    const ease = 1 - (1 - t) ** 3;
    state.view = {
      from: from.from + (to.from - from.from) * ease,
      width: from.width + (to.width - from.width) * ease,
    };
    if (t === 1) state.view = to;
    graph.draw();
    if (t < 1) gliding = requestAnimationFrame(frame);
  };
  if (length) gliding = requestAnimationFrame(frame);
  else frame(start);
}

function zoomTo(node, remember = true) {
  if (remember && node !== state.zoom) state.trail.push(state.zoom);
  if (!node) state.trail = [];
  state.zoom = node;
  glide({ from: sizes.x[node], width: sizes.w[node] || 1 });
  graph.reveal(node);
  showCrumbs();
  showMatched();
  byId("reset").disabled = !node;
}

// A view that was moved by hand; keeps within the root.
function setView(from, width) {
  cancelAnimationFrame(gliding);
  width = Math.min(1, Math.max(1e-7, width));
  state.view = { width, from: Math.min(1 - width, Math.max(0, from)) };
  byId("reset").disabled = width === 1 && !state.zoom;
  graph.draw();
}

function back() {
  if (state.view.width !== (sizes.w[state.zoom] || 1)) zoomTo(state.zoom, false);
  else if (state.trail.length) zoomTo(state.trail.pop(), false);
  else if (state.zoom) zoomTo(0);
  else if (state.match) search("");
}

function showCrumbs() {
  const crumbs = byId("crumbs");
  crumbs.replaceChildren();
  if (!state.zoom) return graph.resize();
  const path = [];
  for (let i = state.zoom; i >= 0; i = tree.parent[i]) path.unshift(i);
  path.forEach((node, k) => {
    if (k) crumbs.append(element("span", "\u203a"));
    const name = tree.name(node);
    const b = element("button", name.slice(data.short[tree.frame[node]]));
    b.title = name;
    if (node === state.zoom) b.setAttribute("aria-current", "true");
    b.onclick = () => zoomTo(node);
    crumbs.append(b);
  });
  crumbs.scrollLeft = crumbs.scrollWidth;
  graph.resize();
}

// Search.
function search(text, frames, picked = -1) {
  const field = byId("find");
  if (field.value !== text) field.value = text;
  state.picked = picked;
  state.match = frames || (text ? matchFrames(tree, matcher(text)) : null);
  for (const b of byId("legend").querySelectorAll("button")) {
    b.setAttribute("aria-pressed", String(Boolean(frames) && b.frames === frames));
  }
  showMatched();
  graph.draw();
  table.fill();
}

function showMatched() {
  let text = "";
  if (state.match) {
    text = "Matched: " + formatPercent(matchedShare(tree, sizes, state.match, 0));
    if (state.zoom) {
      text += " \u00b7 " + formatPercent(matchedShare(tree, sizes, state.match, state.zoom)) + " of zoomed";
    }
  }
  byId("matched").textContent = text;
}

// Words around the graph.
function showAbout() {
  const about = byId("about");
  const value = (v) => formatValue(v, sizes.unit);
  about.replaceChildren();
  if (data.subtitle) about.append(data.subtitle + " \u00b7 ");
  about.append(data.types[state.type][0] + " ");
  if (data.diff) {
    const [l, r] = [sizes.left[0], sizes.right[0]];
    about.append("left ", element("b", value(l)), " \u2192 right ", element("b", value(r)));
    if (l) about.append(" (" + signed(r - l, formatPercent(Math.abs(r - l) / l)) + ")");
  } else {
    about.append(element("b", value(sizes.left[0])));
  }
  about.append(" \u00b7 " + (tree.n - 1).toLocaleString("en-US") + " frames" +
    (data.reverse ? ", from the leaves to their callers" : ""));
}

function showLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  if (data.diff) {
    const ramp = element("span", "less", "key ramp");
    for (let i = 0; i < 9; i++) {
      const swatch = element("i");
      swatch.style.background = graph.colours().d[i];
      ramp.append(swatch);
    }
    ramp.append("more");
    legend.append(ramp, element("span", state.normalise
      ? "change of the share; the left side is scaled to the total of the right"
      : "change of the value", "key"));
  } else {
    const selves = new Float64Array(data.groups.length);
    for (let i = 1; i < tree.n; i++) {
      if (!tree.isOther(i)) selves[data.group[tree.frame[i]]] += tree.self[sizes.first][i];
    }
    const order = [...selves.keys()].filter((g) => selves[g] && data.groups[g][0]);
    order.sort((a, b) => selves[b] - selves[a]);
    for (const g of order.slice(0, 8)) {
      const [name, muted, hue] = data.groups[g];
      const b = element("button");
      const swatch = element("i");
      swatch.style.background = graph.colours().c[(muted ? MUTED : hue * HUE_SHADES) + 1];
      const share = formatPercent(selves[g] / (sizes.left[0] || 1));
      b.append(swatch, (name.length > 30 ? "\u2026" + name.slice(-29) : name) + " " + share);
      b.title = name + ": " + share + " self; click to highlight";
      b.frames = matchFrames(tree, (_, frame) => data.group[frame] === g);
      b.setAttribute("aria-pressed", "false");
      b.onclick = () => search("", state.match === b.frames ? null : b.frames);
      legend.append(b);
    }
  }
  if (tree.flags.some((f) => f & 1)) {
    const key = element("span", undefined, "key");
    key.append(element("i", undefined, "hatched"), "inlined");
    legend.append(key);
  }
  const notes = omissions(tree, sizes);
  if (notes.length) legend.append(element("span", notes.join("; "), "note"));
}

// Tooltip: beside the pointer, never under it, inside of the window; in a narrow one at the
// end that is farther away, so that it hides neither the frame nor its callees.
const tip = byId("tip");
function showTip(node, x, y) {
  if (node < 0) {
    tip.hidden = true;
    return;
  }
  if (tip.node !== node || tip.zoom !== state.zoom || tip.sizes !== sizes) {
    const t = describe(tree, sizes, node, state.zoom);
    const rows = element("dl");
    for (const [label, ...values] of t.rows) {
      rows.append(element("dt", label));
      values.filter(Boolean).forEach((v) => rows.append(element("dd", v, values.length === 1 && data.diff ? "wide" : "")));
    }
    const where = [t.place, [t.module, t.group].filter(Boolean).join(" \u00b7 "), t.kind].filter(Boolean);
    tip.replaceChildren(element("strong", t.name), ...where.map((line) => element("p", line)), rows);
    Object.assign(tip, { node, zoom: state.zoom, sizes });
  }
  tip.hidden = false;
  const { offsetWidth: w, offsetHeight: h } = tip;
  const left = x + 16 + w > innerWidth - 8 ? Math.max(8, Math.min(x - 16 - w, innerWidth - w - 8)) : x + 16;
  let top = y + 18;
  if (top + h > innerHeight - 8) top = y - h - 12;
  if (top < 8) top = Math.max(8, Math.min(y + 18, innerHeight - h - 8));
  if (innerWidth < 600) top = y < innerHeight / 2 ? innerHeight - h - 8 : 8;
  tip.style.transform = "translate(" + Math.round(left) + "px," + Math.round(top) + "px)";
}

function setType(type) {
  state.type = type;
  sizes = measure(tree, type, state.normalise);
  state.view = { from: sizes.x[state.zoom], width: sizes.w[state.zoom] || 1 };
  if (!sizes.w[state.zoom]) zoomTo(0);
  showAbout();
  showLegend();
  showMatched();
  table.fill();
  graph.draw();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  state.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  restyle();
}

function restyle() {
  graph.restyle(state.blue);
  showLegend();
  table.fill();
  graph.draw();
}

function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
}

function flip() {
  state.flip = !state.flip;
  press("flip", state.flip);
  graph.resize();
  graph.reveal(state.zoom);
}

function toggleTable() {
  const list = byId("list");
  list.hidden = !list.hidden;
  press("table", !list.hidden);
  document.body.style.setProperty("--below", byId("graph").offsetTop + "px");
  table.fill();
  graph.resize();
}

function normalise() {
  if (!data.diff) return;
  state.normalise = !state.normalise;
  press("normal", state.normalise);
  setType(state.type);
}

const KEYS = [
  ["click, Enter", "zoom into a frame"],
  ["Esc", "go back: zoom, then search"],
  ["Home", "whole profile"],
  ["\u2190 \u2191 \u2192 \u2193", "walk from frame to frame"],
  ["Ctrl + wheel, + \u2212", "zoom about the pointer, or the middle"],
  ["drag", "move the zoomed view"],
  ["/", "search; plain text or a regular expression"],
  ["t", "table of functions"],
  ["f", "root on top or at the bottom"],
  ["n", "in a diff: shares or absolute values"],
  ["c", "copy the frame\u2019s name"],
  ["d", "light or dark"],
];
for (const [key, what] of KEYS) {
  const dt = element("dt");
  dt.append(element("kbd", key));
  byId("keys").querySelector("dl").append(dt, element("dd", what));
}

function moveTo(node) {
  state.current = node;
  const { from, width } = state.view;
  const middle = sizes.x[node] + sizes.w[node] / 2;
  if (middle < from || middle > from + width || (sizes.w[node] / width) * innerWidth < 2) {
    zoomTo(node ? tree.parent[node] : 0);
  }
  graph.reveal(node);
  graph.draw();
  byId("live").textContent = sentence(describe(tree, sizes, node, state.zoom));
  const box = graph.boxOf(node);
  if (box) showTip(node, box.x, box.y);
}

function onKey(event) {
  if (event.target.matches("input, select, dialog *")) {
    if (event.key === "Escape" && event.target.id === "find") {
      search("");
      byId("canvas").focus();
    } else if (event.key === "Enter" && event.target.id === "find") {
      byId("canvas").focus();
    }
    return;
  }
  const find = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f";
  if (!find && (event.ctrlKey || event.metaKey || event.altKey)) return;
  const onCanvas = event.target.id === "canvas" || event.target === document.body;
  const [up, down] = state.flip ? ["child", "parent"] : ["parent", "child"];
  const steps = { ArrowUp: up, ArrowDown: down, ArrowLeft: "previous", ArrowRight: "next" };
  const middle = state.view.from + state.view.width / 2;
  const keys = {
    "/": () => byId("find").select(),
    Escape: back,
    Home: () => {
      state.current = 0;
      zoomTo(0);
    },
    t: toggleTable,
    f: flip,
    n: normalise,
    d: () => byId("theme").click(),
    "?": () => byId("keys").showModal(),
    c: () => navigator.clipboard?.writeText(tree.name(state.hover >= 0 ? state.hover : Math.max(state.current, 0))),
    "+": () => setView(middle - state.view.width / 3, state.view.width / 1.5),
    "=": () => keys["+"](),
    "-": () => setView(middle - state.view.width * 0.75, state.view.width * 1.5),
  };
  if (find) {
    byId("find").select();
  } else if (steps[event.key] && onCanvas) {
    moveTo(state.current < 0 ? state.zoom : walk(tree, sizes, state.current, steps[event.key]));
  } else if (event.key === "Enter" && onCanvas) {
    if (state.current >= 0) zoomTo(state.current);
    showTip(-1);
  } else if (keys[event.key]) {
    keys[event.key]();
    if (event.key !== "t") showTip(-1);
  } else {
    return;
  }
  event.preventDefault();
}

const table = functionTable(byId("list"), tree, state, () => sizes, (frame) => {
  search("", frame < 0 ? null : matchFrames(tree, (_, f) => f === frame), frame);
});

byId("title").textContent = data.title;
data.types.forEach(([type, unit], i) => {
  const o = element("option", type + (unit && unit !== "count" ? " (" + unit + ")" : ""));
  o.value = i;
  byId("type").append(o);
});
byId("type").hidden = data.types.length < 2;
byId("type").onchange = (event) => setType(Number(event.target.value));
byId("normal").hidden = byId("blue").hidden = !data.diff;
byId("normal").onclick = normalise;
byId("blue").onclick = () => {
  state.blue = !state.blue;
  press("blue", state.blue);
  restyle();
};
byId("find").oninput = (event) => search(event.target.value);
byId("reset").onclick = () => zoomTo(0);
byId("flip").onclick = flip;
byId("table").onclick = toggleTable;
byId("theme").onclick = () => setTheme(state.theme === "dark" ? "light" : "dark");
byId("help").onclick = () => byId("keys").showModal();
night.addEventListener("change", () => setTheme(night.matches ? "dark" : "light"));
document.addEventListener("keydown", onKey);
press("normal", state.normalise);
press("flip", state.flip);
graph.listen({ zoomTo, setView, showTip });
showAbout();
setTheme(night.matches ? "dark" : "light");
graph.resize();
