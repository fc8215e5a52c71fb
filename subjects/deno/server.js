// For `deno serve [--parallel] server.js [TLS-PORT CERT KEY]`.

const [tlsPort, cert, key] = Deno.args;

function answer(request) {
  switch (new URL(request.url).pathname) {
    case "/plaintext":
      return new Response("Hello, World!");
    case "/json":
      return Response.json({ message: "Hello, World!" });
    default:
      return new Response("Not Found", { status: 404 });
  }
}

// Over HTTP/2, Deno leaves it to us that answers to HEAD have no body.
async function withoutBody(response) {
  const { byteLength } = await response.arrayBuffer();
  response.headers.set("Content-Length", byteLength);
  return new Response(null, response);
}

function fetch(request) {
  const response = answer(request);
  return request.method === "HEAD" ? withoutBody(response) : response;
}

if (tlsPort) {
  Deno.serve({
    hostname: "127.0.0.1",
    port: Number(tlsPort),
    cert: Deno.readTextFileSync(cert),
    key: Deno.readTextFileSync(key),
    reusePort: true, // each worker of --parallel runs this file
  }, fetch);
}

// Left to itself, Deno waits for connections of HTTP/2 that are open, and for the server of the TLS
// port.
Deno.addSignalListener("SIGTERM", () => Deno.exit());

export default { fetch };
