// The table of functions: one sample type, all of them, or two profiles.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type Column, type VirtualTable, changeColumns, matcher, valueColumns, virtualTable } from "./component";

interface TopColumn {
  type: string;
  unit: string;
  total: number;
  flat: number[];
  cum: number[];
}
type Change = [before: number, after: number, half: number, significant: number];
export interface Top {
  notes: string[];
  names: string[];
  inlined?: number[];
  columns?: TopColumn[];
  type?: string;
  unit?: string;
  totals?: [number, number];
  flat?: Change[];
  cum?: Change[];
}

const INLINED = ["", " (inline)", " (partial-inline)"];

function columnsOf(top: Top): Column[] {
  const text = (row: number) => top.names[row] + INLINED[top.inlined?.[row] ?? 0];
  const name: Column = { key: "name", label: "Function", value: (row) => top.names[row], text };
  if (top.cum && top.flat) {
    const { cum, flat } = top;
    const change = (row: number) => flat[row][1] - flat[row][0];
    return [name, ...changeColumns(top.unit!, (row) => cum[row][0], (row) => cum[row][1], change, (row) => !cum[row][3],
      (row) => !flat[row][3])];
  }
  return [name, ...top.columns!.flatMap((c, i) => valueColumns(c.unit, c.total, (row) => c.flat[row], (row) => c.cum[row],
    i ? "t" + i + "-" : "", top.columns!.length > 1 ? " " + c.type : ""))];
}

// The order that is asked for, if the table has such a column.
export const orderOf = (columns: Column[], asked: string | undefined, usual: string) =>
  (asked && columns.some(({ key }) => key === asked.replace(/^-/, "")) ? asked : usual);

// Rows of anything, by their numbers. order is a column's key, after a minus if it falls.
export function Rows({ columns, rows, order, onOrder, picked = -1, onPick, onOpen, onMenu, label, many, empty }: {
  columns: Column[];
  rows: number[];
  order: string;
  onOrder(order: string): void;
  picked?: number;
  onPick?(row: number): void;
  onOpen?(row: number): void;
  onMenu?(row: number, x: number, y: number): void;
  label: string;
  many?: boolean; // columns, beyond the window's width
  empty?: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const table = useRef<VirtualTable | null>(null);
  const props = { columns, rows, picked, onPick, onOpen, onMenu, onOrder };
  const now = useRef(props);
  now.current = props;
  useLayoutEffect(() => {
    const made = virtualTable(box.current!, {
      columns: () => now.current.columns,
      rows: () => now.current.rows,
      ordered: (o) => now.current.onOrder((o.down ? "-" : "") + o.key),
      picked: () => now.current.picked,
      pick: (row) => now.current.onPick?.(row),
      open: (row) => now.current.onOpen?.(row),
      menu: onMenu && ((row, x, y) => now.current.onMenu?.(row, x, y)),
      empty,
    });
    table.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    table.current!.setOrder({ key: order.replace(/^-/, ""), down: order.startsWith("-") });
    table.current!.fill();
  }, [columns, rows, order, picked]);
  return (
    <div class={"rows" + (many ? " many" : "")} ref={box} role="region" aria-label={label} tabIndex={-1}>
      <table>
        <thead />
        <tbody />
      </table>
    </div>
  );
}

export function FunctionTable({ top, filter, order, onOrder, picked, onPick, onOpen, onMenu }: {
  top: Top;
  filter: string;
  order: string;
  onOrder(order: string): void;
  picked: string;
  onPick(name: string): void;
  onOpen(name: string): void;
  onMenu?(name: string, x: number, y: number): void;
}) {
  const columns = useMemo(() => columnsOf(top), [top]);
  const rows = useMemo(() => {
    const test = filter ? matcher(filter) : null;
    const list: number[] = [];
    top.names.forEach((name, i) => (!test || test(name, i)) && list.push(i));
    return list;
  }, [top, filter]);
  return (
    <Rows label="Functions" many={columns.length > 5} columns={columns} rows={rows} order={orderOf(columns, order, top.cum && !top.columns ? "-change" : "-self")} onOrder={onOrder}
      picked={picked ? top.names.indexOf(picked) : -1} onPick={(row) => onPick(top.names[row])} onOpen={(row) => onOpen(top.names[row])}
      onMenu={onMenu && ((row, x, y) => onMenu(top.names[row], x, y))} />
  );
}
