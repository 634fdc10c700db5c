// The flame graph on a canvas. Only what is visible is drawn: subtrees outside of the view,
// and all but one of those that share a pixel, are skipped whole; a frame costs what it shows.
const ROW = 20;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

function canvasGraph(canvas, scroll, space, tree, state, sizesNow) {
  // The boxes are kept on a canvas of their own, so that pointing at one repaints only its
  // outline.
  const screen = canvas.getContext("2d");
  const boxes = document.createElement("canvas");
  const pen = boxes.getContext("2d");
  const { data } = tree;
  let colours = {};
  let hatch = null;
  let width = 0;
  let height = 0;
  let waiting = 0;
  let stale = true;
  let listeners = null;
  const widths = new Float32Array(data.names.length);
  const italicWidths = new Float32Array(data.names.length);
  const textWidth = (text) => pen.measureText(text).width;
  const rows = tree.maxDepth + 1;
  const shownTo = new Float64Array(rows); // of each level, where the last thin frame ended

  // The top of a level, in canvas pixels.
  function rowTop(depth) {
    const all = Math.max(rows * ROW, height);
    return (state.flip ? all - (depth + 1) * ROW : depth * ROW) - scroll.scrollTop;
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
    space.style.height = rows * ROW + "px";
    width = scroll.clientWidth;
    height = scroll.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = boxes.width = Math.round(width * ratio);
      canvas.height = boxes.height = Math.round(height * ratio);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    for (const p of [pen, screen]) p.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
    stale = true;
    paint();
  }

  // Everything anew, or only the outlines.
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
    if (stale) paintBoxes();
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
    const sizes = sizesNow();
    const { from, width: w } = state.view;
    const left = Math.max(0, ((sizes.x[i] - from) / w) * width);
    const right = Math.min(width, ((sizes.x[i] + sizes.w[i] - from) / w) * width);
    return right > left ? { left, right, top: rowTop(tree.depth[i]) } : null;
  }

  function paintBoxes() {
    const sizes = sizesNow();
    const { from, width: w } = state.view;
    const palette = sizes.right ? colours.d : colours.c;
    const perShare = width / w;
    const { n, depth, end, frame, flags } = tree;
    pen.fillStyle = colours.bg;
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = "middle";
    shownTo.fill(0);
    for (let i = 0; i < n;) {
      const px = sizes.w[i] * perShare;
      let left = (sizes.x[i] - from) * perShare;
      let right = left + px;
      const top = rowTop(depth[i]);
      if (right <= 0 || left >= width || (state.flip ? top < -ROW : top > height)) {
        i = end[i];
        continue;
      }
      if (px < 0.5) {
        // Of the frames that share a pixel one stands for all, and so do its callees.
        if (left < shownTo[depth[i]] || !px) {
          i = end[i];
          continue;
        }
        left = Math.floor(left);
        right = shownTo[depth[i]] = left + 1;
      }
      const node = i++;
      if (top <= -ROW || top >= height) continue;
      left = Math.max(0, left);
      right = Math.min(width, right);
      const gap = px > 3 && right < width ? 1 : 0;
      const found = !state.match || state.match[frame[node]];
      const isAbove = node < state.zoom && end[node] > state.zoom;
      pen.globalAlpha = isAbove ? 0.5 : 1;
      pen.fillStyle = found ? palette[sizes.colour[node]] : colours.dim;
      pen.fillRect(left, top, right - left - gap, ROW - 1);
      const inlined = flags[node] & 1;
      if (inlined && found && px > 4) {
        pen.fillStyle = hatch;
        pen.fillRect(left, top, right - left - gap, ROW - 1);
      }
      pen.globalAlpha = 1;
      if (right - left > 18) {
        pen.font = inlined ? "italic " + FONT : FONT;
        const text = fitName(data, frame[node], right - left - 9, textWidth, inlined ? italicWidths : widths);
        pen.fillStyle = found ? colours.on : colours.faint;
        if (text) pen.fillText(text, left + 5, top + ROW / 2);
      }
    }
  }

  function nodeAt(x, y) {
    const sizes = sizesNow();
    const all = Math.max(rows * ROW, height);
    const level = Math.floor((y + scroll.scrollTop) / ROW);
    const wanted = state.flip ? Math.floor((all - y - scroll.scrollTop) / ROW) : level;
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

  // Scrolls so that the node's level is in sight.
  function reveal(i) {
    const top = rowTop(tree.depth[i]);
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

  function listen(to) {
    listeners = to;
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
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0) drag = { x: event.clientX, y: event.clientY, from: state.view.from, top: scroll.scrollTop, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
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
    canvas.addEventListener("pointerup", (event) => {
      const click = drag && !drag.moved;
      drag = null;
      if (!click) return;
      const node = nodeAt(...at(event));
      if (node >= 0) {
        state.current = node;
        listeners.zoomTo(node);
      }
      hover(node, event);
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") hover(-1, event);
    });
    canvas.addEventListener("wheel", (event) => {
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
    canvas.addEventListener("blur", () => listeners.showTip(-1));
    scroll.addEventListener("scroll", draw);
    new ResizeObserver(resize).observe(scroll);
    addEventListener("resize", resize);
  }

  return { draw, paint, resize, restyle, reveal, boxOf, listen, nodeAt, colours: () => colours };
}
