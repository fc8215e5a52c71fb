// An HTTP server with a known bottleneck: java Server PORT sleep|pool|lock|gc|jit
import com.sun.net.httpserver.HttpServer;
import java.io.DataInputStream;
import java.lang.invoke.MethodHandles;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.LinkedList;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

public class Server {
    static final Object LOCK = new Object();
    static final LinkedList<Object> LIVE = new LinkedList<>();
    static byte[] code;

    public static void main(String[] words) throws Exception {
        String mode = words[1];
        if (mode.equals("gc")) fill();
        if (mode.equals("jit"))
            code = Server.class.getResourceAsStream("Work.class").readAllBytes();
        Executor threads = mode.equals("pool") ? Executors.newFixedThreadPool(4)
            : mode.equals("jit") ? Executors.newFixedThreadPool(2)
            : Executors.newCachedThreadPool();
        byte[] body = "Hello, World!".getBytes();
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 1024);
        server.createContext("/", exchange -> {
            work(mode);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(threads);
        server.start();
    }

    static void work(String mode) {
        try {
            switch (mode) {
                case "sleep", "pool" -> Thread.sleep(20);
                case "lock" -> { synchronized (LOCK) { Thread.sleep(3); } }
                case "gc" -> churn();
                // A new class with the same code, none of which is compiled yet.
                case "jit" -> MethodHandles.lookup().defineHiddenClass(code, true).lookupClass()
                    .getMethod("run").invoke(null);
            }
        } catch (ReflectiveOperationException | InterruptedException error) {
            throw new RuntimeException(error);
        }
    }

    // Keeps many small objects alive, because each collection of the whole heap visits all of them.
    static void fill() {
        for (int i = 0; i < 900_000; i++) LIVE.add(new int[] {i});
    }

    // Replaces objects that lived for a while, so that the old generation fills, too.
    static synchronized void churn() {
        for (int i = 0; i < 2_000; i++) {
            LIVE.removeFirst();
            LIVE.add(new int[] {i});
        }
    }
}
