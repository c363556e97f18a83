// Builds dist/ from src/; with --tests, bundles the tests of pure helpers into .build/ instead. No other tool.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";

const shared = { bundle: true, legalComments: "none", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  await build({
    ...shared,
    entryPoints: ["tests/helpers.test.ts"],
    outdir: ".build",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    format: "esm",
  });
} else {
  await mkdir("dist", { recursive: true });
  await build({
    ...shared,
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    minify: true,
  });
  await build({ ...shared, entryPoints: { app: "src/app.css" }, outdir: "dist", minify: true });
  await copyFile("src/index.html", "dist/index.html");
}
