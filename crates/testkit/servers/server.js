// An HTTP server with a known bottleneck: node server.js PORT timeout|pool
const http = require("node:http");
const { setTimeout: sleep } = require("node:timers/promises");

const [port, mode] = process.argv.slice(2);
let last = Promise.resolve();

// Does the work of one request at a time, in the order of arrival.
function inTurn(work) {
  last = last.then(work);
  return last;
}

http.createServer(async (request, response) => {
  await (mode === "pool" ? inTurn(() => sleep(5)) : sleep(20));
  response.end("Hello, World!");
}).listen(Number(port), "127.0.0.1");
