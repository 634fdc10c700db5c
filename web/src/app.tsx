// Which home this is: the server's document says so, the viewer's describes its profile.
import "../../src/report/flame/flame.css";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { render } from "preact";
import { meta } from "./meta";
import { Viewer } from "./viewer";

const app = document.getElementById("app")!;
if (meta.home === "server") void import("./server/main").then(({ Server }) => render(<Server />, app));
else render(<Viewer />, app);
