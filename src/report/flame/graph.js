// The flame graph as a component: zoom, breadcrumbs, search, tooltip, legend, menu and keys for the
// canvas. It fills elements of the page:
//   canvas, scroll (around it), space (as high as all levels), crumbs, legend, tip, live, and
//   optionally menu.
// hooks: zoomed(node), matched(text), moved(), picked(frames), actions(node) for the menu's lines
// [label, action], other(node) when an "other" is clicked.
import { HUE_SHADES, MUTED, decode, describe, formatPercent, matchFrames, matchedShare, matcher, measure, moduleHue, omissions, sentence, walk } from "./core.js";
import { canvasGraph } from "./canvas.js";

export function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// Pages loaded over plain HTTP from another machine have no navigator.clipboard.
export function copyText(text) {
  if (navigator.clipboard) return void navigator.clipboard.writeText(text);
  const field = element("textarea", text, "unseen");
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus?.();
}

export function flameGraph(parts, data, hooks = {}) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const ending = new AbortController();
  const tree = data.data ? data : decode(data);
  const state = {
    tree,
    sizes: null,
    type: 0,
    normalize: Boolean(tree.data.normalize),
    byModule: false,
    blue: false,
    flip: Boolean(tree.data.flip),
    zoom: 0,
    trail: [], // previously zoomed nodes
    view: { from: 0, width: 1 }, // visible range of the canvas, in shares of the root
    hover: -1,
    current: -1, // keyboard position
    match: null, // matching frames, 1 each
    text: "", // search text
    picked: -1, // frame picked in the table
  };
  state.sizes = measure(tree, state.type, state.normalize);
  const graph = canvasGraph(parts.canvas, parts.scroll, parts.space, state);

  // Zooms with an animation, unless the system requests reduced motion.
  let gliding = 0;
  function glide(to) {
    cancelAnimationFrame(gliding);
    const from = { ...state.view };
    const start = performance.now();
    const length = still.matches ? 0 : 180;
    const frame = (now) => {
      const t = length ? Math.max(0, Math.min(1, (now - start) / length)) : 1;
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
    glide({ from: state.sizes.x[node], width: state.sizes.w[node] || 1 });
    graph.reveal(node);
    showCrumbs();
    hooks.zoomed?.(node);
    showMatched();
    hooks.moved?.();
  }

  // Sets a view moved by the user; clamps it to the root.
  function setView(from, width) {
    cancelAnimationFrame(gliding);
    width = Math.min(1, Math.max(1e-7, width));
    state.view = { width, from: Math.min(1 - width, Math.max(0, from)) };
    hooks.moved?.();
    graph.draw();
  }

  function back() {
    if (state.view.width !== (state.sizes.w[state.zoom] || 1)) zoomTo(state.zoom, false);
    else if (state.trail.length) zoomTo(state.trail.pop(), false);
    else if (state.zoom) zoomTo(0);
    else if (state.match) search("");
  }

  function click(node) {
    if (state.tree.isOther(node) && hooks.other) {
      hooks.other(node);
      return;
    }
    state.current = node;
    zoomTo(node);
  }

  function showCrumbs() {
    const { crumbs } = parts;
    const { tree: t } = state;
    crumbs.replaceChildren();
    if (!state.zoom) return graph.resize();
    const path = [];
    for (let i = state.zoom; i >= 0; i = t.parent[i]) path.unshift(i);
    path.forEach((node, k) => {
      if (k) crumbs.append(element("span", "\u203a"));
      const name = t.name(node);
      const b = element("button", name.slice(t.data.short[t.frame[node]]).slice(0, 200));
      b.title = name.slice(0, 1000);
      if (node === state.zoom) b.setAttribute("aria-current", "true");
      b.onclick = () => zoomTo(node);
      crumbs.append(b);
    });
    crumbs.scrollLeft = crumbs.scrollWidth;
    graph.resize();
  }

  // Highlights what matches the text, or the given frames.
  function search(text, frames, picked = -1) {
    state.picked = picked;
    state.text = frames ? "" : text;
    state.match = frames || (text ? matchFrames(state.tree, matcher(text)) : null);
    for (const b of parts.legend.querySelectorAll("button")) {
      b.setAttribute("aria-pressed", String(Boolean(frames) && b.frames === frames));
    }
    showMatched();
    graph.draw();
    hooks.picked?.(text);
  }

  function showMatched() {
    let text = "";
    if (state.match) {
      const share = (within) => formatPercent(matchedShare(state.tree, state.sizes, state.match, within));
      text = "Matched: " + share(0) + (state.zoom ? " \u00b7 " + share(state.zoom) + " of zoomed" : "");
    }
    hooks.matched?.(text);
  }

  function showLegend() {
    const { legend } = parts;
    const { tree: t, sizes } = state;
    legend.replaceChildren();
    if (t.data.diff) {
      const ramp = element("span", "less", "key ramp");
      for (let i = 0; i < 9; i++) {
        const swatch = element("i");
        swatch.style.background = graph.colours().d[i];
        ramp.append(swatch);
      }
      ramp.append("more");
      legend.append(ramp);
      const noise = t.data.noise?.[sizes.type];
      if (noise) {
        const factor = noise[2] * (state.normalize ? sizes.left[0] / sizes.right[0] : 1);
        legend.append(element("span", "gray: within noise", "key"));
        if (Math.abs(Math.log(factor)) > 0.05) legend.append(element("span", `most functions changed by a factor of ${factor.toPrecision(2)}; others are colored`, "key"));
      }
      legend.append(element("span", state.normalize
        ? "change of the share; the left side is scaled to the total of the right"
        : "change of the value", "key"));
    } else {
      legend.append(...groupKeys(t, sizes));
    }
    if (t.flags.some((f) => f & 1)) {
      const key = element("span", undefined, "key");
      key.append(element("i", undefined, "hatched"), "inlined");
      legend.append(key);
    }
    const notes = omissions(t, sizes);
    if (notes.length) legend.append(element("span", notes.join("; "), "note"));
  }

  // The packages or modules with the largest self values, as buttons that highlight them.
  function groupKeys(t, sizes) {
    const { data: d } = t;
    const of = (f) => (state.byModule ? d.module[f] : d.group[f]);
    const title = (g) => (state.byModule ? d.texts[g] : d.groups[g][0]);
    const selves = new Map();
    const sample = new Map();
    // In a reversed graph, self time is at the frames on the first level.
    const spent = (i) => (!d.reverse ? t.self[sizes.first][i] : t.depth[i] === 1 ? t.total[sizes.first][i] : 0);
    for (let i = 1; i < t.n; i++) {
      const g = of(t.frame[i]);
      if (t.isOther(i) || !spent(i)) continue;
      selves.set(g, (selves.get(g) || 0) + spent(i));
      sample.set(g, t.frame[i]);
    }
    const top = [...selves.keys()].filter(title).sort((a, b) => selves.get(b) - selves.get(a)).slice(0, 8);
    return top.map((g) => {
      const name = title(g);
      const b = element("button");
      const swatch = element("i");
      const [, muted, hue] = d.groups[d.group[sample.get(g)]];
      const colour = state.byModule ? moduleHue(d, sample.get(g)) * HUE_SHADES : muted ? MUTED : hue * HUE_SHADES;
      swatch.style.background = graph.colours().c[colour + 1];
      const share = formatPercent(selves.get(g) / (sizes.left[0] || 1));
      b.append(swatch, (name.length > 30 ? "\u2026" + name.slice(-29) : name) + " " + share);
      b.title = name.slice(0, 300) + ": " + share + " self; click to highlight";
      b.frames = matchFrames(t, (_, frame) => of(frame) === g);
      b.setAttribute("aria-pressed", "false");
      b.onclick = () => search("", state.match === b.frames ? null : b.frames);
      return b;
    });
  }

  // Tooltip: beside the pointer, never under it, and inside of the window. In a narrow window it
  // goes to the farther end, so that it hides neither the frame nor its callees.
  const { tip } = parts;
  let told = null;
  function showTip(node, x, y) {
    if (node < 0) {
      tip.hidden = true;
      return;
    }
    if (!told || told.node !== node || told.zoom !== state.zoom || told.sizes !== state.sizes) {
      const t = describe(state.tree, state.sizes, node, state.zoom);
      const rows = element("dl");
      for (const [label, ...values] of t.rows) {
        rows.append(element("dt", label));
        values.filter(Boolean).forEach((v) => rows.append(element("dd", v, values.length === 1 && state.tree.data.diff ? "wide" : "")));
      }
      const where = [t.place, [t.module, t.group].filter(Boolean).join(" \u00b7 "), t.kind].filter(Boolean);
      const name = t.name.length > 600 ? t.name.slice(0, 400) + " \u2026 " + t.name.slice(-150) : t.name;
      tip.replaceChildren(element("strong", name), ...where.map((line) => element("p", line)), rows);
      told = { node, zoom: state.zoom, sizes: state.sizes };
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

  // The context menu of a frame.
  function showMenu(node, x, y) {
    const { menu } = parts;
    const lines = hooks.actions?.(node);
    if (!menu || !lines) return;
    menu.replaceChildren(...lines.map(([label, act]) => {
      const b = element("button", label);
      b.setAttribute("role", "menuitem");
      b.onclick = () => {
        hideMenu();
        act();
      };
      return b;
    }));
    menu.hidden = false;
    const left = Math.max(8, Math.min(x, innerWidth - menu.offsetWidth - 8));
    const top = Math.max(8, Math.min(y, innerHeight - menu.offsetHeight - 8));
    menu.style.transform = "translate(" + Math.round(left) + "px," + Math.round(top) + "px)";
    menu.firstChild.focus();
  }

  function hideMenu() {
    if (!parts.menu || parts.menu.hidden) return;
    parts.menu.hidden = true;
    parts.canvas.focus({ preventScroll: true });
  }

  function onMenuKey(event) {
    const items = [...parts.menu.children];
    const at = items.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) items[(at + step + items.length) % items.length].focus();
    else if (event.key === "Escape" || event.key === "Tab") hideMenu();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  if (parts.menu) {
    const { signal } = ending;
    parts.menu.addEventListener("keydown", onMenuKey, { signal });
    document.addEventListener("pointerdown", (event) => {
      if (!parts.menu.contains(event.target)) parts.menu.hidden = true;
    }, { signal });
  }

  // Call after data, widths or colors have changed.
  function refresh() {
    state.sizes = measure(state.tree, state.type, state.normalize, state.byModule);
    if (!state.sizes.w[state.zoom]) state.zoom = 0;
    state.view = { from: state.sizes.x[state.zoom], width: state.sizes.w[state.zoom] || 1 };
    showLegend();
    showMatched();
    graph.draw();
  }

  // Shows another tree, starting at node zoom. An active search continues.
  function setTree(next, zoom = 0) {
    state.tree = next;
    state.zoom = zoom;
    state.trail = [];
    state.hover = state.current = state.picked = -1;
    if (state.type >= next.data.types.length) state.type = 0;
    state.match = state.text ? matchFrames(next, matcher(state.text)) : null;
    showTip(-1);
    refresh();
    showCrumbs();
    graph.resize();
    hooks.moved?.();
  }

  function set(changes) {
    Object.assign(state, changes);
    if ("blue" in changes) graph.restyle(state.blue);
    if ("flip" in changes) {
      graph.resize();
      graph.reveal(state.zoom);
    }
    refresh();
  }

  function restyle() {
    graph.restyle(state.blue);
    showLegend();
    graph.draw();
  }

  function moveTo(node) {
    const { sizes, tree: t } = state;
    state.current = node;
    const { from, width } = state.view;
    const middle = sizes.x[node] + sizes.w[node] / 2;
    if (middle < from || middle > from + width || (sizes.w[node] / width) * innerWidth < 2) {
      zoomTo(node ? t.parent[node] : 0);
    }
    graph.reveal(node);
    graph.draw();
    parts.live.textContent = sentence(describe(t, sizes, node, state.zoom));
    const box = graph.boxOf(node);
    if (box) showTip(node, box.x, box.y);
  }

  const atPointer = () => (state.hover >= 0 ? state.hover : Math.max(state.current, 0));
  const copyName = (node = atPointer()) => copyText(state.tree.name(node));

  // Handles a key. onCanvas: nothing else has the focus. Returns whether the key was handled.
  function key(event, onCanvas) {
    const [up, down] = state.flip ? ["child", "parent"] : ["parent", "child"];
    const steps = { ArrowUp: up, ArrowDown: down, ArrowLeft: "previous", ArrowRight: "next" };
    const middle = state.view.from + state.view.width / 2;
    const keys = {
      Escape: back,
      Home: () => {
        state.current = 0;
        zoomTo(0);
      },
      c: () => copyName(),
      m: () => {
        const box = graph.boxOf(atPointer());
        if (box) showMenu(atPointer(), box.x, box.y);
      },
      "+": () => setView(middle - state.view.width / 3, state.view.width / 1.5),
      "=": () => keys["+"](),
      "-": () => setView(middle - state.view.width * 0.75, state.view.width * 1.5),
    };
    if (steps[event.key] && onCanvas) {
      moveTo(state.current < 0 ? state.zoom : walk(state.tree, state.sizes, state.current, steps[event.key]));
    } else if (event.key === "Enter" && onCanvas) {
      if (state.current >= 0) click(state.current);
      showTip(-1);
    } else if (Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      showTip(-1);
    } else {
      return false;
    }
    return true;
  }

  graph.listen({ click, setView, showTip, menu: showMenu }, ending.signal);
  graph.restyle(false);
  showLegend();
  graph.resize();
  return {
    state, graph, zoomTo, setView, back, search, set, setTree, restyle, key, showTip, copyName, refresh,
    resize: graph.resize,
    destroy() {
      cancelAnimationFrame(gliding);
      ending.abort();
    },
  };
}
