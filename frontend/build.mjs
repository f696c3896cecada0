// Bundles the front end into src/latentgraph/explorer/assets, from where Python puts it into each page.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const options = {
  entryPoints: { explorer: "src/main.ts" },
  outdir: fileURLToPath(new URL("../src/latentgraph/explorer/assets", import.meta.url)),
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome90", "firefox113", "safari16.4"],
  charset: "ascii",
  metafile: true,
  logLevel: "warning",
};

// Each page carries the libraries, so it carries their licences.
const { metafile } = await build({ ...options, write: false });
const ofPackage = /^node_modules\/((?:@[^/]+\/)?[^/]+)/;
const packages = new Set(Object.keys(metafile.inputs).flatMap((path) => path.match(ofPackage)?.[1] ?? []));
const licences = [...packages].sort().map((name) => `${name}\n\n${readFileSync(licence(name), "utf-8").trim()}`);
await build({ ...options, banner: { js: `/*\nThis script contains:\n\n${licences.join("\n\n")}\n*/` } });

function licence(name) {
  const found = ["LICENSE", "LICENSE.txt", "LICENSE.md"].map((file) => `node_modules/${name}/${file}`).find(existsSync);
  if (!found) throw new Error(`${name} has no licence file`);
  return found;
}
