// Moments on a timeline, such as deploys: a thin line each, with its text.
import type uPlot from "uplot";
import { clock } from "./timeline";

export interface Marker {
  time: number; // ms since 1970
  text: string;
}

const NEAR = 5; // pixels from the pointer

export const markerText = ({ time, text }: Marker) => `${text} (${clock(time / 1000, 600)})`;

// markers() are those of now. place() puts them where they belong; near() gives the texts of those at a place.
export function markerLayer(plot: uPlot, markers: () => Marker[]) {
  const lines: HTMLElement[] = [];
  const left = ({ time }: Marker) => plot.valToPos(time / 1000, "x");
  return {
    place() {
      const list = markers();
      for (const old of lines.splice(list.length)) old.remove();
      list.forEach((marker, i) => {
        const line = (lines[i] ??= plot.over.appendChild(document.createElement("span")));
        line.className = "marker";
        line.style.left = left(marker) + "px";
      });
    },
    near: (x: number) => markers().filter((marker) => Math.abs(left(marker) - x) <= NEAR).map(markerText),
  };
}
