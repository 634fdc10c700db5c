// Source lines and machine code with what falls on each, as `kiln weblist` and `kiln disasm`
// list them.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

// The server's listing is markup made of escaped text; it is parsed apart from the page, and what
// the page's policy does not let markup say, the width of bars, is set here.
export function SourceView({ html }: { html: string }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    for (const line of parsed.querySelectorAll<HTMLElement>("[data-share]")) {
      line.style.backgroundSize = 100 * Number(line.dataset.share) + "% 100%";
    }
    box.current!.replaceChildren(...parsed.body.childNodes);
  }, [html]);
  const all = () => {
    const lines = [...box.current!.querySelectorAll("details")];
    const open = lines.some((line) => !line.open);
    for (const line of lines) line.open = open;
  };
  return (
    <div class="listing">
      <button onClick={all}>Open or close all lines</button>
      <div ref={box} />
    </div>
  );
}

interface CodeLine {
  text: string;
  kind: string;
}

function codeLine(text: string): CodeLine {
  const routine = /^ROUTINE =+ (.*)$/.exec(text);
  if (routine) return { text: routine[1], kind: "routine" };
  const fields = /^ *(\S+) +(\S+) /.exec(text);
  if (text.includes(" (flat, cum) ")) return { text, kind: "" };
  if (fields && fields[1] === "." && fields[2] === ".") return { text, kind: "none" };
  return { text, kind: fields && /^-?[\d.]/.test(fields[2]) ? "warm" : "" };
}

export function CodeView({ text }: { text: string }) {
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n").map(codeLine), [text]);
  return (
    <div class="listing">
      <pre>{lines.map(({ text: line, kind }, i) => <div key={i} class={kind}>{line || " "}</div>)}</pre>
    </div>
  );
}
