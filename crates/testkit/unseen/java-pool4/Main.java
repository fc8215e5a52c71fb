import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Handlers block, and they run in a pool of four threads. A simulated security module signs each
 * response. It works on any number of signatures at once, and returns each after 5 ms.
 */
public class Main {
    static final class Signer {
        private final ScheduledExecutorService module =
                Executors.newSingleThreadScheduledExecutor(r -> {
            Thread t = new Thread(r, "hsm");
            t.setDaemon(true);
            return t;
        });

        Future<String> sign(String text) {
            CompletableFuture<String> signature = new CompletableFuture<>();
            module.schedule(() -> signature.complete(Integer.toHexString(text.hashCode())), 5,
                    TimeUnit.MILLISECONDS);
            return signature;
        }
    }

    static final Signer signer = new Signer();

    static void handle(HttpExchange exchange) throws IOException {
        boolean found = exchange.getRequestURI().getPath().equals("/");
        byte[] body = (found ? "ok" : "not found").getBytes(StandardCharsets.US_ASCII);
        if (found) {
            try {
                exchange.getResponseHeaders().set("X-Signature", signer.sign("ok").get());
            } catch (InterruptedException | ExecutionException e) {
                throw new IOException(e);
            }
        }
        exchange.getResponseHeaders().set("Content-Type", "text/plain");
        exchange.sendResponseHeaders(found ? 200 : 404, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(args.length > 1 ? args[1] : System.getenv("PORT"));
        HttpServer server = HttpServer.create(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 511);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", Main::handle);
        server.start();
        // SIGTERM is the normal end of this server. Without this hook the JVM ends with status 143.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    }
}
