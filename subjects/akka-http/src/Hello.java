import akka.actor.ActorSystem;
import akka.http.javadsl.ConnectionContext;
import akka.http.javadsl.Http;
import akka.http.javadsl.ServerBuilder;
import akka.http.javadsl.server.Route;
import java.time.Duration;
import java.util.Arrays;

public final class Hello {
    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    private static void bind(ActorSystem system, ServerBuilder server, Route route) {
        server.bind(route).whenComplete((binding, failure) -> {
            if (failure == null) {
                binding.addToCoordinatedShutdown(Duration.ofSeconds(1), system);
            } else {
                failure.printStackTrace();
                system.terminate();
            }
        });
    }

    public static void main(String[] args) throws Exception {
        ActorSystem system = ActorSystem.create("hello");
        Http http = Http.get(system);
        Route route = new Routes().all();
        String port = value(args, "--port");
        if (port != null) {
            bind(system, http.newServerAt("127.0.0.1", Integer.parseInt(port)), route);
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            ServerBuilder server = http.newServerAt("127.0.0.1", Integer.parseInt(tlsPort))
                .enableHttps(ConnectionContext.httpsServer(
                    Tls.context(value(args, "--cert"), value(args, "--key"))));
            bind(system, server, route);
        }
    }
}
