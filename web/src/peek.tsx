// Each function that matches between those that call it and those that it calls.
import { formatPercent, formatValue } from "./component";

type Neighbour = [name: string, weight: number, inline: number];
type PeekNode = [name: string, flat: number, cum: number, callers: Neighbour[], callees: Neighbour[]];
export interface Peek {
  notes: string[];
  unit: string;
  total: number;
  nodes: PeekNode[];
  matched: number;
}

function Row({ name, weight, cum, unit, kind, inline, open }: {
  name: string;
  weight: number;
  cum: number;
  unit: string;
  kind: string;
  inline: number;
  open(name: string): void;
}) {
  const share = cum ? weight / cum : 0;
  return (
    <li class={kind}>
      <span class="value">{formatValue(weight, unit)}</span>
      <span class="value share">
        <meter min={0} max={1} value={Math.min(1, Math.abs(share))} aria-hidden="true" />
        {formatPercent(share)}
      </span>
      <button class="link" title={name.slice(0, 1000)} onClick={() => open(name)}>{name}{inline ? " (inline)" : ""}</button>
    </li>
  );
}

export function PeekView({ peek, open }: { peek: Peek; open(name: string): void }) {
  const share = (v: number) => formatPercent(peek.total ? v / peek.total : 0);
  return (
    <div class="peek">
      {peek.nodes.map(([name, flat, cum, callers, callees]) => (
        <article key={name}>
          {callers.length > 0 && (
            <ul aria-label="Callers">
              {callers.map(([n, w, inline]) => <Row key={n} name={n} weight={w} cum={cum} unit={peek.unit} kind="caller" inline={inline} open={open} />)}
            </ul>
          )}
          <h2>
            <span class="name" title={name.slice(0, 1000)}>{name}</span>
            <span class="sums">self <b>{formatValue(flat, peek.unit)}</b> {share(flat)} · total <b>{formatValue(cum, peek.unit)}</b> {share(cum)}</span>
          </h2>
          {callees.length > 0 && (
            <ul aria-label="Callees">
              {callees.map(([n, w, inline]) => <Row key={n} name={n} weight={w} cum={cum} unit={peek.unit} kind="callee" inline={inline} open={open} />)}
            </ul>
          )}
        </article>
      ))}
      {peek.matched > peek.nodes.length && <p class="faint">{peek.matched - peek.nodes.length} more match; narrow the search.</p>}
    </div>
  );
}
