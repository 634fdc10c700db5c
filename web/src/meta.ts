// What the document says about the profile.
import type { Params } from "./url";

export interface Meta {
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

export const meta: Meta = JSON.parse(document.getElementById("meta")!.textContent!);
