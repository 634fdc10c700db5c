// Small parts that all pages use.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useAway } from "./api";
import { follow, href, type Params, read } from "./url";

// A button that opens a panel below it; Esc, a click elsewhere and choosing close it.
export function Popover({ label, title, children, mark }: {
  label: string;
  title?: string;
  mark?: boolean;
  children: ComponentChildren | ((close: () => void) => ComponentChildren);
}) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const close = () => setOpen(false);
  useEffect(() => {
    if (!open) return;
    const away = (event: Event) => box.current!.contains(event.target as Node) || close();
    const key = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
      box.current!.querySelector("button")!.focus();
    };
    document.addEventListener("pointerdown", away);
    box.current!.addEventListener("keydown", key);
    const at = box.current;
    return () => {
      document.removeEventListener("pointerdown", away);
      at!.removeEventListener("keydown", key);
    };
  }, [open]);
  return (
    <div class="popover" ref={box}>
      <button aria-expanded={open} aria-controls={id} title={title} class={mark ? "marked" : ""} onClick={() => setOpen(!open)}>
        {label}<span class="caret" aria-hidden="true">▾</span>
      </button>
      {open && <div class="panel" id={id}>{typeof children === "function" ? children(close) : children}</div>}
    </div>
  );
}

export function Check({ label, on, set, hint }: { label: string; on: boolean; set(on: boolean): void; hint?: string }) {
  return (
    <label class="check" title={hint}>
      <input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

export function Choice({ label, value, options, set }: {
  label: string;
  value: string;
  options: [value: string, text: string][];
  set(value: string): void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {options.map(([v, text]) => <option value={v} key={v}>{text}</option>)}
      </select>
    </label>
  );
}

// What stands in for data: what failed or is missing, and what to do.
export function Notice({ title, children, actions }: {
  title: string;
  children?: ComponentChildren;
  actions?: [label: string, act: () => void][];
}) {
  return (
    <div class="notice" role="status">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {actions && actions.length > 0 && (
        <div class="row">{actions.map(([label, act]) => <button key={label} onClick={act}>{label}</button>)}</div>
      )}
    </div>
  );
}

// Above data that may be old.
export function AwayBanner() {
  const away = useAway();
  return away ? <p class="away" role="alert">{away}</p> : null;
}

// Shows what failed instead of a blank page, until the place (the address) changes.
export class ErrorBoundary extends Component<{ place: string; children: ComponentChildren }, { problem: string }> {
  static getDerivedStateFromError = (error: Error) => ({ problem: error.message });
  componentDidUpdate({ place }: { place: string }) {
    if (this.state.problem && place !== this.props.place) this.setState({ problem: "" });
  }
  render() {
    const { problem } = this.state;
    if (!problem) return this.props.children;
    return <Notice title="This page failed" actions={[["Reload", () => location.reload()], ["Go to Services", () => location.assign("./")]]}>{problem}</Notice>;
  }
}

export function Dialog({ title, open, close, children }: {
  title: string;
  open: boolean;
  close(): void;
  children: ComponentChildren;
}) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !box.current!.open) box.current!.showModal();
    if (!open && box.current!.open) box.current!.close();
  }, [open]);
  return (
    <dialog ref={box} aria-label={title} onClose={close} onClick={(event) => event.target === box.current && close()}>
      <h2>{title}</h2>
      {children}
      <form method="dialog"><button>Close</button></form>
    </dialog>
  );
}

// A link in a table's cell.
export function link(label: string, title: string, view: string, changes: Params): HTMLElement {
  const a = document.createElement("a");
  a.textContent = label;
  a.title = title;
  a.href = href(view, { ...read().params, ...changes });
  a.onclick = (event) => follow(event, changes, view);
  return a;
}

export function save(name: string, content: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
