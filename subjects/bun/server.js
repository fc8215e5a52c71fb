import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    port: { type: "string" },
    workers: { type: "string", default: "1" },
    worker: { type: "boolean", default: false },
  },
});
const workers = Number(options.workers);

function serve() {
  Bun.serve({
    hostname: "127.0.0.1",
    port: Number(options.port),
    reusePort: workers > 1,
    idleTimeout: 60, // the default of 10 s would close connections that a slow load leaves idle
    routes: {
      "/plaintext": () => new Response("Hello, World!"),
      "/json": () => Response.json({ message: "Hello, World!" }),
    },
    fetch: () => new Response("Not Found", { status: 404 }),
  });
}

// One process runs JavaScript on one CPU only; processes that share the port are Bun's way to use
// more.
if (workers > 1 && !options.worker) {
  const command = [process.execPath, import.meta.path, ...process.argv.slice(2), "--worker"];
  const stdio = ["ignore", "inherit", "inherit"];
  const all = Array.from({ length: workers }, () => Bun.spawn(command, { stdio }));
  process.on("SIGTERM", () => {
    all.forEach((worker) => worker.kill());
    process.exit();
  });
} else {
  serve();
}
