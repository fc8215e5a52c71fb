import java.util.Map;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.pathmap.PathSpec;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.PathMappingsHandler;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.ajax.JSON;

public final class Hello {
    private static final class Plaintext extends Handler.Abstract.NonBlocking {
        @Override
        public boolean handle(Request request, Response response, Callback callback) {
            response.getHeaders().put(HttpHeader.CONTENT_TYPE, "text/plain");
            Content.Sink.write(response, true, "Hello, World!", callback);
            return true;
        }
    }

    private static final class Json extends Handler.Abstract.NonBlocking {
        private final JSON json = new JSON();

        @Override
        public boolean handle(Request request, Response response, Callback callback) {
            response.getHeaders().put(HttpHeader.CONTENT_TYPE, "application/json");
            String body = json.toJSON(Map.of("message", "Hello, World!"));
            Content.Sink.write(response, true, body, callback);
            return true;
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2 || !args[0].equals("--port")) {
            System.err.println("usage: Hello --port PORT");
            System.exit(2);
        }
        Server server = new Server();

        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[1]));
        // The default of 30 s would close connections that a slow load leaves idle.
        connector.setIdleTimeout(60_000);
        server.addConnector(connector);

        PathMappingsHandler paths = new PathMappingsHandler();
        paths.addMapping(PathSpec.from("/plaintext"), new Plaintext());
        paths.addMapping(PathSpec.from("/json"), new Json());
        server.setHandler(paths);

        server.setStopAtShutdown(true);
        server.setStopTimeout(500);
        server.start();
        server.join();
    }
}
