// Draws the flame graph on a canvas. Subtrees outside of the view, and all but one of the frames in
// a pixel, are skipped as a whole, so that the cost of a frame depends on what is visible.
import { GREY, fitName } from "./core.js";

export const ROW = 20;
const NARROW = 3; // px: no gap, no hatching, no name
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

// state: tree, sizes, view, zoom, flip, match, hover, current, as kept by graph.js.
export function canvasGraph(canvas, scroll, space, state) {
  // Boxes are drawn on a separate canvas, so that hovering only repaints an outline.
  const screen = canvas.getContext("2d");
  const boxes = document.createElement("canvas");
  const pen = boxes.getContext("2d");
  let colours = {};
  let hatch = null;
  let width = 0;
  let height = 0;
  let waiting = 0;
  let stale = true;
  let known = null; // the data that the widths belong to
  let widths = new Float32Array(0);
  let italicWidths = widths;
  const uprightWidth = letterWidth(FONT);
  const italicWidth = letterWidth("italic " + FONT);
  let held = null; // the context whose font is set
  let slanted = 0;
  const strips = document.createElement("canvas");
  const stripPen = strips.getContext("2d");
  const dotsOf = new Map();
  let pixels = null;
  let dots = null;
  let shownTo = new Float64Array(0); // right edge of the last thin frame on each level

  const rows = () => state.tree.maxDepth + 1;
  const tall = () => Math.max(rows() * ROW, height);

  // The top of a level, in canvas pixels.
  function rowTop(depth) {
    return (state.flip ? tall() - (depth + 1) * ROW : depth * ROW) - scroll.scrollTop;
  }

  function restyle(blue) {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    colours = { c: [], d: [] };
    for (const name of ["bg", "fg", "on", "faint", "dim", "accent"]) colours[name] = read(name);
    for (let i = 0; i <= GREY; i++) colours.c.push(read("c" + i));
    for (let i = 0; i < 9; i++) colours.d.push(read((blue && i < 4 ? "b" : "d") + i));
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const t = tile.getContext("2d");
    t.strokeStyle = colours.on;
    t.globalAlpha = 0.17;
    t.lineWidth = 1.4;
    for (const x of [-6, 0, 6]) {
      t.moveTo(x - 1, 7);
      t.lineTo(x + 7, -1);
    }
    t.stroke();
    hatch = pen.createPattern(tile, "repeat");
  }

  function resize() {
    const ratio = devicePixelRatio || 1;
    space.style.height = rows() * ROW + "px";
    width = scroll.clientWidth;
    height = scroll.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = boxes.width = Math.round(width * ratio);
      canvas.height = boxes.height = Math.round(height * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    if (!width || !height) return;
    for (const p of [pen, screen]) p.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
    stale = true;
    paint();
  }

  // draw() repaints everything, touch() only the outlines.
  function draw() {
    stale = true;
    touch();
  }

  function touch() {
    if (!waiting) waiting = requestAnimationFrame(paint);
  }

  function paint() {
    cancelAnimationFrame(waiting);
    waiting = 0;
    if (!canvas.width || !canvas.height) return;
    if (stale) paintBoxes(pen, width, height, rowTop);
    stale = false;
    screen.drawImage(boxes, 0, 0, width, height);
    if (state.hover >= 0) outline(state.hover, colours.fg, 1.25);
    if (state.current >= 0) outline(state.current, colours.accent, 2);
  }

  function outline(i, colour, lineWidth) {
    const box = place(i);
    if (!box || box.right - box.left < 1) return;
    screen.strokeStyle = colour;
    screen.lineWidth = lineWidth;
    const inset = lineWidth / 2;
    screen.strokeRect(box.left + inset, box.top + inset, Math.max(1, box.right - box.left - lineWidth), ROW - 1 - lineWidth);
  }

  function place(i) {
    const { sizes } = state;
    const { from, width: w } = state.view;
    const left = Math.max(0, ((sizes.x[i] - from) / w) * width);
    const right = Math.min(width, ((sizes.x[i] + sizes.w[i] - from) / w) * width);
    return right > left ? { left, right, top: rowTop(state.tree.depth[i]) } : null;
  }

  // Calls visit(node, left, right, top, px) for each visible box; px is its full width.
  function eachBox(wide, high, topOf, visit) {
    const { sizes, tree } = state;
    const { from, width: w } = state.view;
    const perShare = wide / w;
    const { n, depth, end } = tree;
    if (shownTo.length < rows()) shownTo = new Float64Array(rows());
    shownTo.fill(0);
    for (let i = 0; i < n;) {
      const px = sizes.w[i] * perShare;
      let left = (sizes.x[i] - from) * perShare;
      let right = left + px;
      const top = topOf(depth[i]);
      if (right <= 0 || left >= wide || (state.flip ? top < -ROW : top > high)) {
        i = end[i];
        continue;
      }
      if (px < 0.5) {
        // One frame represents all frames in a pixel, including their callees.
        if (left < shownTo[depth[i]] || !px) {
          i = end[i];
          continue;
        }
        left = Math.floor(left);
        right = shownTo[depth[i]] = left + 1;
      }
      const node = i++;
      if (top <= -ROW || top >= high) continue;
      visit(node, Math.max(0, left), Math.min(wide, right), top, px);
    }
  }

  const found = (node) => !state.match || state.match[state.tree.frame[node]];
  const isAbove = (node) => node < state.zoom && state.tree.end[node] > state.zoom;
  const colourAt = (node) => !found(node) ? colours.dim
    : (state.sizes.right ? colours.d : colours.c)[state.sizes.colour[node]];

  function textAt(to, node, room) {
    const { data } = state.tree;
    if (known !== data) {
      known = data;
      widths = new Float32Array(data.names.length);
      italicWidths = new Float32Array(data.names.length);
    }
    const inlined = state.tree.flags[node] & 1;
    if (inlined !== slanted || to !== held) {
      slanted = inlined;
      held = to;
      to.font = inlined ? "italic " + FONT : FONT;
    }
    return fitName(data, state.tree.frame[node], room, inlined ? italicWidth : uprightWidth,
      inlined ? italicWidths : widths);
  }

  // Sums the widths of letters: measuring each text in the browser would take most of the time.
  function letterWidth(font) {
    const letters = new Float32Array(65536);
    return (text) => {
      let sum = 0;
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        if (!letters[code]) {
          pen.font = font;
          letters[code] = pen.measureText(text[i]).width || 0.001;
          held = null;
        }
        sum += letters[code];
      }
      return sum;
    };
  }

  // There are many narrow boxes: each is a few pixels in a strip that is one pixel high and
  // stretched to its row. Then come wide boxes, then all names, because changing colors and fonts
  // for each box would cost more than drawing.
  function paintBoxes(to, wide, high, topOf) {
    const ratio = to.getTransform().a;
    const columns = Math.max(1, Math.round(wide * ratio));
    const slots = Math.ceil(high / ROW) + 3;
    if (!pixels || pixels.width !== columns || pixels.height !== slots) {
      strips.width = columns;
      strips.height = slots;
      pixels = stripPen.createImageData(columns, slots);
      dots = new Uint32Array(pixels.data.buffer);
    }
    dots.fill(0);
    const rowAt = new Float64Array(slots).fill(NaN);
    const boxed = [];
    eachBox(wide, high, topOf, (node, left, right, top, px) => {
      if (px > NARROW) {
        boxed.push(node, left, right, top);
        return;
      }
      const slot = Math.floor(top / ROW) + 1;
      const from = slot * columns + Math.floor(left * ratio);
      const to_ = Math.min(Math.max(from + 1, slot * columns + Math.floor(right * ratio)), (slot + 1) * columns);
      rowAt[slot] = top;
      dots.fill(dotOf(colourAt(node)), from, to_);
    });
    let fill = (to.fillStyle = colours.bg);
    held = null;
    to.globalAlpha = 1;
    to.fillRect(0, 0, wide, high);
    to.textBaseline = "middle";
    to.imageSmoothingEnabled = false;
    stripPen.putImageData(pixels, 0, 0);
    rowAt.forEach((top, slot) => top === top && to.drawImage(strips, 0, slot, columns, 1, 0, top, wide, ROW - 1));
    for (let i = 0; i < boxed.length; i += 4) {
      const [node, left, right, top] = [boxed[i], boxed[i + 1], boxed[i + 2], boxed[i + 3]];
      const gap = right < wide ? 1 : 0;
      const colour = colourAt(node);
      if (colour !== fill) to.fillStyle = fill = colour;
      const above = isAbove(node);
      if (above) to.globalAlpha = 0.5;
      to.fillRect(left, top, right - left - gap, ROW - 1);
      if (state.tree.flags[node] & 1 && found(node)) {
        to.fillStyle = fill = hatch;
        to.fillRect(left, top, right - left - gap, ROW - 1);
      }
      if (above) to.globalAlpha = 1;
    }
    for (const slant of [0, 1]) {
      for (let i = 0; i < boxed.length; i += 4) {
        const [node, left, right, top] = [boxed[i], boxed[i + 1], boxed[i + 2], boxed[i + 3]];
        if (right - left < 22 || (state.tree.flags[node] & 1) !== slant) continue;
        const text = textAt(to, node, right - left - 9);
        if (!text) continue;
        const ink = found(node) ? colours.on : colours.faint;
        if (ink !== fill) to.fillStyle = fill = ink;
        to.fillText(text, left + 5, top + ROW / 2);
      }
    }
  }

  // #rrggbb as a pixel of an ImageData.
  function dotOf(colour) {
    if (!dotsOf.has(colour)) {
      const rgb = parseInt(colour.slice(1), 16);
      dotsOf.set(colour, (0xff000000 | (rgb & 255) << 16 | (rgb & 0xff00) | rgb >> 16) >>> 0);
    }
    return dotsOf.get(colour);
  }

  // All levels at twice the resolution, independent of scrolling.
  function picture() {
    const full = document.createElement("canvas");
    const high = rows() * ROW;
    full.width = width * 2;
    full.height = Math.min(high, 16000) * 2;
    const to = full.getContext("2d");
    to.setTransform(2, 0, 0, 2, 0, 0);
    paintBoxes(to, width, high, topIn(high));
    return full;
  }
  const topIn = (high) => (depth) => (state.flip ? high - (depth + 1) * ROW : depth * ROW);

  function svg() {
    const high = rows() * ROW;
    const escape = (text) => text.replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt(0) + ";")
      .replace(/[^\t\n\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");
    const out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${high}" viewBox="0 0 ${width} ${high}">`,
      `<rect width="100%" height="100%" fill="${colours.bg}"/>`,
      `<g font-family="system-ui, sans-serif" font-size="12" fill="${colours.on}">`];
    eachBox(width, high, topIn(high), (node, left, right, top, px) => {
      const gap = px > 3 ? 1 : 0;
      const name = state.tree.name(node);
      out.push(`<g><title>${escape(name)}</title><rect x="${left.toFixed(2)}" y="${top}" ` +
        `width="${(right - left - gap).toFixed(2)}" height="${ROW - 1}" fill="${colourAt(node)}"/>`);
      const text = right - left > 18 ? textAt(pen, node, right - left - 9) : "";
      if (text) out.push(`<text x="${(left + 5).toFixed(2)}" y="${top + 14}">${escape(text)}</text>`);
      out.push("</g>");
    });
    out.push("</g></svg>\n");
    return out.join("");
  }

  function nodeAt(x, y) {
    const { sizes, tree } = state;
    const level = Math.floor((y + scroll.scrollTop) / ROW);
    const wanted = state.flip ? Math.floor((tall() - y - scroll.scrollTop) / ROW) : level;
    const share = state.view.from + (x / width) * state.view.width;
    let i = 0;
    while (i < tree.n && tree.depth[i] < wanted) {
      let child = i + 1;
      while (child < tree.end[i] && sizes.x[child] + sizes.w[child] <= share) child = tree.end[child];
      if (child >= tree.end[i] || sizes.x[child] > share) return -1;
      i = child;
    }
    return tree.depth[i] === wanted ? i : -1;
  }

  // Scrolls the node's level into view.
  function reveal(i) {
    const top = rowTop(state.tree.depth[i]);
    if (top < 0) scroll.scrollTop += top - ROW;
    else if (top + 2 * ROW > height) scroll.scrollTop += top + 2 * ROW - height;
    draw();
  }

  function boxOf(i) {
    const box = place(i);
    if (!box) return null;
    const at = canvas.getBoundingClientRect();
    return { x: at.left + Math.min(box.left, width - 40), y: at.top + box.top + ROW - 14, ...box };
  }

  // listeners: click(node), setView(from, width), showTip(node, x, y), menu(node, x, y).
  function listen(listeners, signal) {
    const on = (target, event, act, more) => target.addEventListener(event, act, { signal, ...more });
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const hover = (node, event) => {
      if (state.hover !== node) {
        state.hover = node;
        canvas.style.cursor = node >= 0 ? "pointer" : "default";
        touch();
      }
      listeners.showTip(node, event.clientX, event.clientY);
    };
    let drag = null;
    on(canvas, "pointerdown", (event) => {
      if (event.button === 0) drag = { x: event.clientX, y: event.clientY, from: state.view.from, top: scroll.scrollTop, moved: false };
    });
    on(canvas, "pointermove", (event) => {
      if (drag && event.buttons & 1 && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 5) {
        if (!drag.moved) canvas.setPointerCapture(event.pointerId);
        drag.moved = true;
      }
      if (drag && drag.moved) {
        listeners.setView(drag.from - ((event.clientX - drag.x) / width) * state.view.width, state.view.width);
        if (event.pointerType === "mouse") scroll.scrollTop = drag.top - (event.clientY - drag.y);
        hover(-1, event);
      } else if (event.pointerType === "mouse") {
        hover(nodeAt(...at(event)), event);
      }
    });
    on(canvas, "pointerup", (event) => {
      const click = drag && !drag.moved;
      drag = null;
      if (!click) return;
      const node = nodeAt(...at(event));
      if (node >= 0) listeners.click(node);
      hover(node, event);
    });
    on(canvas, "pointercancel", () => (drag = null));
    on(canvas, "pointerleave", (event) => {
      if (event.pointerType === "mouse") hover(-1, event);
    });
    on(canvas, "contextmenu", (event) => {
      const node = nodeAt(...at(event));
      drag = null;
      if (node < 0 || !listeners.menu) return;
      event.preventDefault();
      hover(-1, event);
      listeners.menu(node, event.clientX, event.clientY);
    });
    on(canvas, "wheel", (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        const share = at(event)[0] / width;
        const { from, width: w } = state.view;
        const next = Math.min(1, Math.max(1e-7, w * 1.0025 ** event.deltaY));
        listeners.setView(from + share * (w - next), next);
      } else if (event.deltaX && state.view.width < 1) {
        event.preventDefault();
        listeners.setView(state.view.from + (event.deltaX / width) * state.view.width, state.view.width);
        scroll.scrollTop += event.deltaY;
      }
    }, { passive: false });
    on(canvas, "blur", () => listeners.showTip(-1));
    on(scroll, "scroll", draw);
    const observer = new ResizeObserver(resize);
    observer.observe(scroll);
    on(window, "resize", resize);
    signal?.addEventListener("abort", () => observer.disconnect());
  }

  return { draw, paint, resize, restyle, reveal, boxOf, listen, nodeAt, picture, svg, colours: () => colours };
}
