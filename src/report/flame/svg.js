// Makes the static flame graph interactive: the script redraws the boxes from the same data, so
// that zooming shows what was too narrow for the file.
const svg = document.documentElement;
const ROW = 18;
const PAD = 10;
const XHTML = "http://www.w3.org/1999/xhtml";
const tree = decode(JSON.parse(svg.getElementById("data").textContent));
const { data } = tree;
const sizes = measure(tree, 0, data.normalize);
const body = svg.getElementById("body");
const width = svg.viewBox.baseVal.width;
const height = svg.viewBox.baseVal.height;
const top0 = Number(body.getAttribute("data-top"));
const inner = width - 2 * PAD;

const pen = document.createElementNS(XHTML, "canvas").getContext("2d");
pen.font = '12px "Helvetica Neue", Arial, "Liberation Sans", sans-serif';
const widths = new Float32Array(data.names.length);
const textWidth = (text) => pen.measureText(text).width;

const state = { zoom: 0, current: 0, flip: Boolean(data.flip), match: null, help: false };
let boxes = new Map();

function make(name, attributes, parent, text) {
  const e = document.createElementNS(svg.namespaceURI, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}

function draw() {
  const z = state.zoom;
  const [x0, w0] = [sizes.x[z], sizes.w[z] || 1];
  const rows = document.createDocumentFragment();
  const groups = [];
  boxes = new Map();
  for (let i = 0; i < tree.n;) {
    const left = Math.max(0, (sizes.x[i] - x0) / w0) * inner;
    const right = Math.min(1, (sizes.x[i] + sizes.w[i] - x0) / w0) * inner;
    const px = right - left;
    if (px < 0.3) {
      i = tree.end[i];
      continue;
    }
    const depth = tree.depth[i];
    const y = top0 + ROW * (state.flip ? tree.maxDepth - depth : depth);
    const g = groups[depth] || (groups[depth] = make("g", { transform: "translate(" + PAD + " " + y + ")" }, rows));
    let kind = (sizes.right ? "d" : "c") + sizes.colour[i] + (tree.flags[i] & 1 ? " i" : "");
    if (z && i < z) kind += " up";
    if (state.match) kind += state.match[tree.frame[i]] ? " hit" : " dim";
    const box = make("rect", { class: kind, x: left.toFixed(1), width: Math.max(0.1, px - (px > 3 ? 0.6 : 0)).toFixed(1), height: ROW - 1 }, g);
    box.node = i;
    boxes.set(i, box);
    const text = fitName(data, tree.frame[i], px - 7, textWidth, widths);
    if (text) make("text", { class: kind, x: (left + 4).toFixed(1), y: 13 }, g, text);
    i++;
  }
  body.replaceChildren(rows);
  mark(false);
}

function mark(focus) {
  const old = body.querySelector(".cur");
  if (old) old.classList.remove("cur");
  const box = boxes.get(state.current);
  if (!box) return;
  if (focus) {
    box.classList.add("cur");
    box.setAttribute("tabindex", "-1");
    box.setAttribute("role", "button");
    box.setAttribute("aria-label", sentence(describe(tree, sizes, state.current, state.zoom)));
    box.focus();
    const at = box.getBoundingClientRect();
    const scale = width / svg.getBoundingClientRect().width;
    const origin = svg.getBoundingClientRect();
    showTip(state.current, (Math.max(at.left, 0) - origin.left + 12) * scale, (at.bottom - origin.top) * scale);
  }
}

function zoomTo(i) {
  state.zoom = state.current = i;
  draw();
  reset.style.display = i ? "" : "none";
  report();
}

// Tooltip: a text box that stays within the graph.
const tip = make("g", { id: "tip" }, svg);
function showTip(i, x, y) {
  const t = describe(tree, sizes, i, state.zoom);
  tip.replaceChildren();
  const back = make("rect", { rx: 6 }, tip);
  let at = 8;
  let widest = 0;
  const line = (text, kind) => {
    at += 15;
    const e = make("text", { x: 10, y: at - 3, class: kind }, tip, text);
    widest = Math.max(widest, e.getComputedTextLength());
    return e;
  };
  for (let k = 0; k < t.name.length && k < 480; k += 80) line(t.name.slice(k, k + 80), "name");
  const where = [t.place, t.module, t.group, t.kind].filter(Boolean).join(" \u00b7 ");
  if (where) line(where.length > 95 ? "\u2026" + where.slice(-94) : where, "faint");
  at += 4;
  for (const row of t.rows) {
    line(row[0], "faint");
    const value = make("text", { x: 88, y: at - 3 }, tip, row[1]);
    widest = Math.max(widest, 78 + value.getComputedTextLength());
    if (row[2]) {
      const more = make("text", { x: 168, y: at - 3 }, tip, row[2]);
      widest = Math.max(widest, 158 + more.getComputedTextLength());
    }
  }
  const [w, h] = [widest + 20, at + 8];
  back.setAttribute("width", w);
  back.setAttribute("height", h);
  const left = Math.max(4, Math.min(x + 14, width - w - 4));
  let top = y + 18;
  if (top + h > height - 2) top = y - h - 10;
  if (top < 2) top = Math.max(2, Math.min(y + 18, height - h - 2));
  tip.setAttribute("transform", "translate(" + left + " " + top + ")");
  tip.style.display = "block";
}
const hideTip = () => (tip.style.display = "none");

function point(event) {
  const at = svg.getBoundingClientRect();
  const scale = width / at.width;
  return [(event.clientX - at.left) * scale, (event.clientY - at.top) * scale];
}
body.addEventListener("mousemove", (event) => {
  if (event.target.node === undefined) return hideTip();
  showTip(event.target.node, ...point(event));
});
body.addEventListener("mouseleave", hideTip);
body.addEventListener("click", (event) => {
  if (event.target.node === undefined) return;
  zoomTo(event.target.node);
  hideTip();
});

// Controls, right to left.
const controls = make("g", { id: "controls" }, svg);
let edge = width - PAD;
function button(label, name, action) {
  const g = make("g", { class: "button", tabindex: 0, role: "button", "aria-label": name }, controls);
  make("title", {}, g, name);
  const back = make("rect", { y: 12, height: 22, rx: 5 }, g);
  const text = make("text", { y: 27 }, g, label);
  const w = Math.ceil(text.getComputedTextLength()) + 18;
  edge -= w;
  back.setAttribute("x", edge);
  back.setAttribute("width", w);
  text.setAttribute("x", edge + 9);
  edge -= 6;
  g.addEventListener("click", action);
  g.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
  return g;
}
button("?", "Keys", () => toggleHelp());
button("Flip", "Root on top or at the bottom (f)", () => flip());
const fieldWidth = Math.min(190, width / 4);
edge -= fieldWidth;
const holder = make("foreignObject", { x: edge, y: 11, width: fieldWidth, height: 26 }, controls);
const field = document.createElementNS(XHTML, "input");
field.setAttribute("placeholder", "Search: text or regex  /");
field.setAttribute("aria-label", "Search");
field.setAttribute("type", "search");
field.setAttribute("spellcheck", "false");
holder.appendChild(field);
edge -= 6;
const reset = button("Reset zoom", "Reset zoom (Esc)", () => zoomTo(0));
reset.style.display = "none";
const matched = make("text", { id: "matched", x: width - PAD, y: 48, "text-anchor": "end", role: "status" }, controls);

function report() {
  if (!state.match) {
    matched.textContent = "";
    return;
  }
  let text = "Matched: " + formatPercent(matchedShare(tree, sizes, state.match, 0));
  if (state.zoom) text += " \u00b7 " + formatPercent(matchedShare(tree, sizes, state.match, state.zoom)) + " of zoomed";
  matched.textContent = text;
}

function search(text) {
  state.match = text ? matchFrames(tree, matcher(text)) : null;
  draw();
  report();
}
field.addEventListener("input", () => search(field.value));
field.addEventListener("keydown", (event) => {
  event.stopPropagation();
  if (event.key === "Escape") {
    field.value = "";
    search("");
    field.blur();
  } else if (event.key === "Enter") {
    field.blur();
  }
});

function flip() {
  state.flip = !state.flip;
  draw();
}

const KEYS = [
  ["click, Enter", "zoom into a frame"],
  ["Esc, Home", "reset zoom"],
  ["arrows", "walk from frame to frame"],
  ["/, Ctrl+F", "search; Esc in the field clears it"],
  ["f", "root on top or at the bottom"],
  ["?", "this list"],
];
const help = make("g", { id: "help" }, svg);
function toggleHelp() {
  state.help = !state.help;
  help.style.display = state.help ? "block" : "none";
  if (!state.help || help.firstChild) return;
  make("rect", { width: 330, height: KEYS.length * 18 + 18, rx: 6 }, help);
  KEYS.forEach(([key, what], i) => {
    make("text", { x: 14, y: 25 + 18 * i, class: "name" }, help, key);
    make("text", { x: 110, y: 25 + 18 * i }, help, what);
  });
  help.setAttribute("transform", "translate(" + (width - PAD - 330) + " 42)");
}
help.addEventListener("click", toggleHelp);

function go(i) {
  // Moving to a frame outside of the zoomed one changes the zoom.
  if (!boxes.has(i) && i) {
    let z = state.zoom;
    while (z && !(i >= z && i < tree.end[z])) z = tree.parent[z];
    if (z !== state.zoom) zoomTo(z);
    if (!boxes.has(i)) zoomTo(tree.parent[i]);
  }
  if (boxes.has(i)) state.current = i;
  mark(true);
}

window.addEventListener("keydown", (event) => {
  const key = event.key;
  const find = key === "/" || (key.toLowerCase() === "f" && (event.ctrlKey || event.metaKey));
  const [up, down] = state.flip ? ["child", "parent"] : ["parent", "child"];
  const steps = { ArrowUp: up, ArrowDown: down, ArrowLeft: "previous", ArrowRight: "next" };
  if (find) {
    field.focus();
    field.select();
  } else if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (steps[key]) {
    go(walk(tree, sizes, state.current, steps[key]));
  } else if (key === "Enter") {
    zoomTo(state.current);
    mark(true);
  } else if (key === "Escape" || key === "Home") {
    if (state.help) toggleHelp();
    else {
      hideTip();
      zoomTo(0);
    }
  } else if (key === "f") {
    flip();
  } else if (key === "?") {
    toggleHelp();
  } else {
    return;
  }
  event.preventDefault();
});

draw();
