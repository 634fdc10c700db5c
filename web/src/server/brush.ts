// Ranges on a timeline that can be moved and stretched, each in a lane of its own: two of the same time do not hide each
// other.
import type uPlot from "uplot";
import { span } from "./timeline";

export interface Brush {
  label: string;
  colour: number;
  start: number; // ms since 1970
  end: number;
}

const LEAST = 1000; // ms that a range has at least

// brushes() are those of now; moved is told when one was let go of. place() puts them where they belong.
export function brushLayer(plot: uPlot, brushes: () => Brush[], moved: (i: number, start: number, end: number) => void) {
  const time = (x: number) => Math.round(plot.posToVal(x, "x") * 1000);
  const within = () => [plot.scales.x.min! * 1000, plot.scales.x.max! * 1000];
  const boxes = brushes().map((_, i) => make(i));

  function show(i: number, start: number, end: number) {
    const [box, lanes] = [boxes[i], boxes.length];
    const [first, last] = within();
    const { height } = plot.over.getBoundingClientRect();
    const left = plot.valToPos(Math.max(start, first) / 1000, "x");
    const right = plot.valToPos(Math.min(end, last) / 1000, "x");
    Object.assign(box.style, { left: left + "px", width: Math.max(2, right - left) + "px", top: (i * height) / lanes + "px", height: height / lanes - 1 + "px" });
    const { label, colour } = brushes()[i];
    box.style.setProperty("--of", `var(--s${colour})`);
    box.setAttribute("aria-label", label + ": range; arrow keys move it, with Shift its end");
    box.setAttribute("aria-valuemin", String(Math.round(first)));
    box.setAttribute("aria-valuemax", String(Math.round(last)));
    box.setAttribute("aria-valuenow", String(Math.round(start)));
    box.setAttribute("aria-valuetext", span({ start, end }));
    (box.firstChild as HTMLElement).textContent = label;
  }

  function make(i: number): HTMLElement {
    const box = document.createElement("div");
    box.className = "brush";
    box.tabIndex = 0;
    box.setAttribute("role", "slider");
    for (const part of ["b", "i", "i"]) box.append(document.createElement(part));
    const [, from, to] = box.children;
    from.className = "from";
    to.className = "to";
    let held: { x: number; part: EventTarget; start: number; end: number; now: [number, number] } | null = null;
    // The plot's own dragging begins with a mousedown.
    box.addEventListener("mousedown", (event) => event.stopPropagation());
    box.addEventListener("pointerdown", (event) => {
      const { start, end } = brushes()[i];
      held = { x: event.clientX, part: event.target!, start, end, now: [start, end] };
      box.setPointerCapture(event.pointerId);
    });
    box.addEventListener("pointermove", (event) => {
      if (!held) return;
      const by = time(event.clientX - held.x) - time(0);
      const start = held.part === to ? held.start : Math.min(held.start + by, held.part === from ? held.end - LEAST : Infinity);
      const end = held.part === from ? held.end : Math.max(held.end + by, held.start + LEAST);
      held.now = [start, end];
      show(i, start, end);
    });
    box.addEventListener("pointerup", () => {
      const was = held;
      held = null;
      if (was && (was.now[0] !== was.start || was.now[1] !== was.end)) moved(i, ...was.now);
    });
    box.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way) return;
      const { start, end } = brushes()[i];
      const by = way * Math.max(LEAST, Math.round((end - start) / 10));
      if (event.shiftKey) moved(i, start, Math.max(start + LEAST, end + by));
      else moved(i, start + by, end + by);
      event.preventDefault();
      event.stopPropagation();
    });
    plot.over.append(box);
    return box;
  }

  return { place: () => brushes().forEach(({ start, end }, i) => show(i, start, end)), laneAt: (y: number, height: number) => Math.min(boxes.length - 1, Math.floor((y / height) * boxes.length)) };
}
