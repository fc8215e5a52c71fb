import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Every request begins a session, and the last 1350 sessions are kept. They fill most of a small
 * heap, so that the whole heap must be collected after every few sessions.
 */
public class Main {
    record Event(long id, String name, Map<String, String> tags) {}

    static final int KEPT = 1350;
    static final AtomicLong ids = new AtomicLong();
    static final LinkedHashMap<Long, Event[]> sessions = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Event[]> eldest) {
            return size() > KEPT;
        }
    };

    static Event[] session(long id) {
        Event[] events = new Event[60];
        for (int i = 0; i < events.length; i++) {
            Map<String, String> tags = new HashMap<>();
            tags.put("user", "u" + (id + i));
            tags.put("page", "p" + i);
            events[i] = new Event(id, "event-" + id + "-" + i, tags);
        }
        return events;
    }

    static void begin() {
        long id = ids.incrementAndGet();
        Event[] events = session(id);
        synchronized (sessions) {
            sessions.put(id, events);
        }
    }

    static void handle(HttpExchange exchange) throws IOException {
        boolean found = exchange.getRequestURI().getPath().equals("/");
        byte[] body = (found ? "ok" : "not found").getBytes(StandardCharsets.US_ASCII);
        if (found) begin();
        exchange.getResponseHeaders().set("Content-Type", "text/plain");
        exchange.sendResponseHeaders(found ? 200 : 404, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    static long collecting() {
        long ms = 0;
        for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans())
            ms += gc.getCollectionTime();
        return ms;
    }

    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(args.length > 1 ? args[1] : System.getenv("PORT"));
        for (int i = 0; i < KEPT; i++) begin();
        if (System.getenv("TELL_GC") != null) {
            Thread teller = new Thread(() -> {
                for (long last = collecting();;) {
                    try { Thread.sleep(1000); } catch (InterruptedException e) { return; }
                    long now = collecting();
                    Runtime r = Runtime.getRuntime();
                    System.err.printf(
                            "gc %d ms of the last 1000, used %d of %d MB, %d sessions%n",
                            now - last,
                            (r.totalMemory() - r.freeMemory()) >> 20, r.maxMemory() >> 20,
                            ids.get());
                    last = now;
                }
            });
            teller.setDaemon(true);
            teller.start();
        }
        HttpServer server = HttpServer.create(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 511);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", Main::handle);
        server.start();
        // SIGTERM is the normal end of this server. Without this hook the JVM ends with status 143.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));
    }
}
