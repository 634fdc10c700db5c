// How things are shown, what leaves the page, and what is kept.
import { useEffect, useState } from "preact/hooks";
import { copyText, type Flame } from "./component";
import { meta } from "./meta";
import { Check, Choice, Dialog, save } from "./ui";
import { go, href, type Params, REPORT_KEYS } from "./url";

const switchTo = (key: string, value = "1") => (on: boolean) => go({ [key]: on ? value : "", z: "" });

// How a flame graph is drawn. palette: the diff's colours can be chosen here.
export function FlameChecks({ params, diff, palette = diff }: { params: Params; diff: boolean; palette?: boolean }) {
  return (
    <>
      <Check label="Inverted: leaves first" hint="From the leaves to their callers (r)" on={Boolean(params.rev)} set={switchTo("rev")} />
      <Check label="Root at the bottom" hint="(f)" on={Boolean(params.flip)} set={(on) => go({ flip: on ? "1" : "" })} />
      <Check label="Collapse recursion" on={Boolean(params.rec)} set={switchTo("rec")} />
      <Check label="Group by module" on={Boolean(params.mod)} set={switchTo("mod")} />
      {!diff && <Check label="Colors by module" on={Boolean(params.col)} set={(on) => go({ col: on ? "1" : "" })} />}
      {palette && <Check label="Blue instead of green" hint="For color blindness" on={Boolean(params.cb)} set={(on) => go({ cb: on ? "1" : "" })} />}
    </>
  );
}

export function AllTypes({ params }: { params: Params }) {
  return <Check label="All sample types" on={Boolean(params.all)} set={(on) => go({ all: on ? "1" : "" })} />;
}

export function GraphSize({ params }: { params: Params }) {
  return (
    <Choice label="Functions" value={params.n ?? ""} set={(n) => go({ n })} options={[["", "80"], ["20", "20"], ["40", "40"], ["160", "160"], ["400", "400"]]} />
  );
}

export function ViewPanel({ params, view }: { params: Params; view: string }) {
  const flame = view === "flamegraph" || view === "both";
  return (
    <div class="options">
      {flame && <FlameChecks params={params} diff={Boolean(meta.diff)} />}
      {Boolean(meta.diff) && <Check label="Normalized: compare shares" hint="(n)" on={Boolean(params.norm)} set={switchTo("norm", "t")} />}
      {view === "top" && !meta.diff && meta.types.length > 1 && <AllTypes params={params} />}
      {view === "graph" && (
        <>
          <Check label="Calling contexts apart" hint="One box per calling context" on={Boolean(params.calltree)} set={switchTo("calltree", "t")} />
          <Check label="Without Graphviz" on={Boolean(params.own)} set={(on) => go({ own: on ? "1" : "" })} />
          <GraphSize params={params} />
        </>
      )}
      <Choice label="A frame is" value={params.g ?? ""} set={(g) => go({ g, z: "" })}
        options={[["", view === "peek" ? "a line" : "a function"], ["functions", "a function"], ["filefunctions", "a function and file"], ["files", "a file"], ["lines", "a line"], ["addresses", "an address"]]} />
      <Check label="Inlined calls as their caller" on={Boolean(params.noinlines)} set={switchTo("noinlines", "t")} />
      {view === "disasm" && <Check label="Intel syntax" on={Boolean(params.intel)} set={switchTo("intel", "t")} />}
      {!flame && <Check label="Percent of what filters leave" on={Boolean(params.rel)} set={switchTo("rel", "t")} />}
    </div>
  );
}

// file: gives the page, or the profile where there is no address to download it from. command: a line for a
// terminal that gives the same answer. link: this address with fixed times, if its own move with the clock.
export function ExportPanel({ flame, title, close, file, download, command, link }: {
  flame: Flame | null;
  title: string;
  close(): void;
  file(format: string): Promise<Blob>;
  download?: string;
  command?: string;
  link?: string;
}) {
  const [copied, setCopied] = useState("");
  const copy = (what: string, text: string) => {
    copyText(text);
    setCopied(what);
  };
  const name = title.replace(/[^\w.-]+/g, "_").replace(/(\.(pb|gz|zst|pprof|prof))+$/, "") || "profile";
  const [problem, setProblem] = useState("");
  const fetched = (format: string, ending: string) => () => void file(format).then((content) => {
    close();
    save(name + ending, content);
  }, (error: Error) => setProblem(error.message));
  return (
    <div class="options buttons">
      {flame && <button onClick={() => {
        close();
        flame.graph.picture().toBlob((blob) => blob && save(name + ".png", blob));
      }}>PNG: this view</button>}
      {flame && <button onClick={() => {
        close();
        save(name + ".svg", new Blob([flame.graph.svg()], { type: "image/svg+xml" }));
      }}>SVG: this view</button>}
      <button onClick={fetched("html", ".html")}>HTML: one file to zoom and search</button>
      {download ? <a class="button" href={download} download onClick={close}>pprof: what the filters leave</a>
        : <button onClick={fetched("pprof", ".pb.gz")}>pprof: what the filters leave</button>}
      <button onClick={() => copy("Link", link ?? location.href)}>{link ? "Copy link: these times" : "Copy link"}</button>
      {link && <button onClick={() => copy("Live link", location.href)}>Copy live link: times that move with the clock</button>}
      {command && <>
        <button onClick={() => copy("Command", command)}>Copy command: the same in a terminal</button>
        <code>{command}</code>
      </>}
      <output class="faint">{copied && `${copied} copied.`}</output>
      {problem && <p class="problem" role="alert">{problem}</p>}
    </div>
  );
}

// Named settings. The document told which there are; what changes here is remembered here.
let configs = meta.configs;
export function ConfigPanel({ params }: { params: Params }) {
  const [list, setList] = useState(configs);
  const [problem, setProblem] = useState("");
  const set = (next: typeof configs) => {
    configs = next;
    setList(next);
  };
  const own = Object.fromEntries(REPORT_KEYS.filter((key) => key !== "si" && params[key]).map((key) => [key, params[key]]));
  const post = async (action: string, more: Params) => {
    const answer = await fetch(href(action, { ...own, ...more }), { method: "POST" });
    setProblem(answer.ok ? "" : await answer.text());
    return answer.ok;
  };
  return (
    <div class="options">
      {list.length === 0 && <p class="faint">No settings are saved yet.</p>}
      {list.map(([name, values]) => (
        <div class="saved" key={name}>
          <button class="link" onClick={() => go({ ...Object.fromEntries(REPORT_KEYS.filter((key) => key !== "si").map((key) => [key, ""])), ...values, z: "" })}>{name}</button>
          <button class="remove" aria-label={"Delete " + name} onClick={async () => {
            if (await post("deleteconfig", { config: name })) set(list.filter(([n]) => n !== name));
          }}>×</button>
        </div>
      ))}
      <form class="saved" onSubmit={async (event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem("config") as HTMLInputElement;
        const name = field.value.trim();
        if (name && await post("saveconfig", { config: name })) {
          set([...list.filter(([n]) => n !== name), [name, own]]);
          field.value = "";
        }
      }}>
        <input name="config" placeholder="Save these settings as" aria-label="Save these settings as" autocomplete="off" />
        <button type="submit">Save</button>
      </form>
      {problem && <p class="problem">{problem}</p>}
    </div>
  );
}

const KEYS: [key: string, what: string][] = [
  ["click, Enter", "zoom into a frame"], ["right click, m", "more to do with a frame"], ["Esc", "go back: zoom, then search"],
  ["Home", "whole profile"], ["← ↑ → ↓", "walk from frame to frame"], ["Ctrl + wheel, + −", "zoom about the pointer, or the middle"],
  ["drag", "move the zoomed view"], ["/", "search; plain text or a regular expression"], ["1, 2, …", "the views or pages"], ["t", "table beside the flame graph"],
  ["r", "invert: leaves first"], ["f", "root on top or at the bottom"], ["n", "in a diff: shares or absolute values"],
  ["c", "copy the frame’s name"], ["d", "light or dark"], ["?", "this list"],
];

export function Keys({ open, close }: { open: boolean; close(): void }) {
  return (
    <Dialog title="Keys" open={open} close={close}>
      <dl>{KEYS.map(([key, what]) => [<dt key={key}><kbd>{key}</kbd></dt>, <dd key={what}>{what}</dd>])}</dl>
      <p class="faint">kiln {meta.version}</p>
    </Dialog>
  );
}

// The system's, until somebody chooses.
export function useTheme() {
  const night = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem("kiln-theme");
    } catch {
      return null;
    }
  };
  const [chosen, choose] = useState(stored);
  const [system, setSystem] = useState(night.matches);
  useEffect(() => {
    const tell = () => setSystem(night.matches);
    night.addEventListener("change", tell);
    return () => night.removeEventListener("change", tell);
  }, []);
  const theme = chosen ?? (system ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const nextTheme = () => {
    const next = theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("kiln-theme", next);
    } catch {
      // A browser that keeps nothing: it holds until the page is left.
    }
    choose(next);
  };
  return { theme, nextTheme };
}
