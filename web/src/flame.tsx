// The flame graph component in a page: the elements it fills, and what changes it.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type Action, type Flame, type Tree, flameGraph, pathHashes } from "./component";

export interface FlameProps {
  tree: Tree;
  label: string;
  search: string;
  flip: boolean;
  byModule: boolean;
  blue: boolean;
  zoom: string; // the hash of the way to the zoomed frame, or ""
  theme: string;
  onZoom?(zoom: string): void;
  onMatched?(text: string): void;
  onMoved?(moved: boolean): void;
  onLegend?(): void;
  onOther?(tree: Tree, node: number): void;
  actions?(tree: Tree, node: number): Action[];
  control?(flame: Flame | null): void;
}

export function FlameGraph(props: FlameProps) {
  const box = useRef<HTMLElement>(null);
  const flame = useRef<Flame | null>(null);
  const now = useRef(props);
  now.current = props;
  const hashes = useMemo(() => pathHashes(props.tree), [props.tree]);
  const known = useRef(hashes);
  known.current = hashes;
  const find = (zoom: string) => Math.max(0, zoom ? hashes.indexOf(parseInt(zoom, 36)) : 0);
  const shown = useRef<Tree | null>(null);

  useLayoutEffect(() => {
    const part = <T extends Element>(name: string) => box.current!.querySelector("." + name) as unknown as T;
    const parts = {
      canvas: box.current!.querySelector("canvas")!,
      scroll: part<HTMLElement>("scroll"), space: part<HTMLElement>("space"), crumbs: part<HTMLElement>("crumbs"),
      legend: part<HTMLElement>("legend"), tip: part<HTMLElement>("tip"), live: part<HTMLElement>("live"),
      menu: part<HTMLElement>("menu"),
    };
    const made = flameGraph(parts, now.current.tree, {
      zoomed: (node) => now.current.onZoom?.(node ? known.current[node].toString(36) : ""),
      matched: (text) => now.current.onMatched?.(text),
      moved: () => {
        const { view, zoom } = made.state;
        now.current.onMoved?.(view.width < 1 || zoom > 0);
      },
      actions: (node) => now.current.actions?.(made.state.tree, node) ?? [],
      other: (node) => now.current.onOther?.(made.state.tree, node),
    });
    flame.current = made;
    shown.current = now.current.tree;
    const { flip, byModule, blue, search, zoom } = now.current;
    made.set({ flip, byModule, blue });
    if (search) made.search(search);
    if (find(zoom)) made.setTree(now.current.tree, find(zoom));
    props.control?.(made);
    return () => {
      props.control?.(null);
      made.destroy();
    };
  }, []);

  useEffect(() => {
    if (shown.current === props.tree) return;
    shown.current = props.tree;
    flame.current!.state.normalize = Boolean(props.tree.data.normalize);
    flame.current!.setTree(props.tree, find(props.zoom));
  }, [props.tree]);
  useEffect(() => {
    const { state } = flame.current!;
    const changes = { flip: props.flip, byModule: props.byModule, blue: props.blue };
    if (state.flip !== changes.flip || state.byModule !== changes.byModule || state.blue !== changes.blue) flame.current!.set(changes);
  }, [props.flip, props.byModule, props.blue]);
  useEffect(() => flame.current!.search(props.search), [props.search]);
  useEffect(() => {
    const node = find(props.zoom);
    if (node !== flame.current!.state.zoom) flame.current!.zoomTo(node, false);
  }, [props.zoom]);
  useEffect(() => flame.current!.restyle(), [props.theme]);

  return (
    <section class="flame" ref={box} aria-label={props.label}>
      <nav class="crumbs" aria-label="Zoomed frame and its callers" />
      <div class="scroll">
        <div class="space" />
        <canvas tabIndex={0} role="application"
          aria-label={props.label + ". Arrow keys walk the frames, Enter zooms, Escape goes back, m opens a menu; the table has the same data as text."} />
      </div>
      <footer class="legend" />
      <div class="tip" role="tooltip" hidden />
      <div class="menu" role="menu" hidden />
      <div class="unseen live" aria-live="polite" />
    </section>
  );
}
