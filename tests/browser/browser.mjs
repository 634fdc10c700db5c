// The browser of all page tests and measurements.
import { chromium } from "playwright-core";

// CHROMIUM names the browser, /usr/bin/chromium otherwise.
export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic"],
});
