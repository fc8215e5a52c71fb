import io.undertow.Handlers;
import io.undertow.Undertow;
import io.undertow.UndertowOptions;
import io.undertow.server.HttpHandler;
import io.undertow.server.handlers.GracefulShutdownHandler;
import io.undertow.util.Headers;
import java.util.Arrays;

public final class Hello {
    private static HttpHandler answer(String type, String body) {
        return exchange -> {
            exchange.getResponseHeaders().put(Headers.CONTENT_TYPE, type);
            exchange.getResponseSender().send(body);
        };
    }

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    public static void main(String[] args) throws Exception {
        GracefulShutdownHandler handler = Handlers.gracefulShutdown(Handlers.path()
            .addExactPath("/plaintext", answer("text/plain", "Hello, World!"))
            // Undertow brings nothing that writes JSON.
            .addExactPath("/json", answer("application/json", "{\"message\":\"Hello, World!\"}")));

        Undertow.Builder builder = Undertow.builder().setHandler(handler);
        if (Arrays.asList(args).contains("--h2")) {
            builder.setServerOption(UndertowOptions.ENABLE_HTTP2, true);
        }
        String port = value(args, "--port");
        if (port != null) {
            builder.addHttpListener(Integer.parseInt(port), "127.0.0.1");
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            builder.addHttpsListener(
                Integer.parseInt(tlsPort), "127.0.0.1",
                Tls.context(value(args, "--cert"), value(args, "--key")));
        }
        Undertow server = builder.build();
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            handler.shutdown();
            try {
                handler.awaitShutdown(500);
            } catch (InterruptedException e) {
                e.printStackTrace();
            }
            server.stop();
        }));
    }
}
