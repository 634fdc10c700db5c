// What the document says about the profile.
import type { Params } from "./url";

export interface Meta {
  home?: string; // "server"; a viewer's document has none
  version: string;
  title: string;
  diff: number;
  type: number;
  samples: number;
  time: number;
  duration: number;
  types: [type: string, unit: string][];
  comments: string[];
  doc: string;
  config: Params;
  configs: [name: string, params: Params][];
}

const empty: Meta = {
  version: "", title: "", diff: 0, type: 0, samples: 0, time: 0, duration: 0, types: [], comments: [], doc: "", config: {}, configs: [],
};
export const meta: Meta = { ...empty, ...JSON.parse(document.getElementById("meta")!.textContent!) };
