import akka.Done;
import akka.actor.ActorSystem;
import akka.actor.CoordinatedShutdown;
import akka.http.javadsl.ConnectHttp;
import akka.http.javadsl.ConnectionContext;
import akka.http.javadsl.Http;
import akka.http.javadsl.model.HttpRequest;
import akka.http.javadsl.model.HttpResponse;
import akka.http.javadsl.server.RejectionHandler;
import akka.http.javadsl.server.Route;
import akka.http.scaladsl.server.RoutingLog;
import akka.http.scaladsl.settings.ParserSettings;
import akka.http.scaladsl.settings.RoutingSettings;
import akka.japi.Function;
import akka.stream.ActorMaterializer;
import akka.stream.Materializer;
import com.typesafe.config.Config;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletionStage;
import scala.Function1;
import scala.compat.java8.FutureConverters;
import scala.concurrent.Future;

public final class Hello {
    private final ActorSystem system = ActorSystem.create("hello");
    private final Materializer materializer = ActorMaterializer.create(system);
    private final Function<HttpRequest, CompletionStage<HttpResponse>> handler =
        handler(new Routes().all());

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    /**
     * The route as a function, without which there is no HTTP/2. In 10.1 only the Scala API makes
     * one.
     */
    @SuppressWarnings("unchecked")
    private Function<HttpRequest, CompletionStage<HttpResponse>> handler(Route route) {
        Config config = system.settings().config();
        Function1<
            akka.http.scaladsl.model.HttpRequest,
            Future<akka.http.scaladsl.model.HttpResponse>> function =
            akka.http.scaladsl.server.Route.asyncHandler(
                route.asScala(),
                RoutingSettings.apply(config),
                ParserSettings.apply(config),
                materializer,
                RoutingLog.fromActorSystem(system),
                system.dispatcher(),
                RejectionHandler.defaultHandler().asScala(),
                null);
        return request -> {
            CompletionStage<?> response = FutureConverters.toJava(
                function.apply((akka.http.scaladsl.model.HttpRequest) request));
            return (CompletionStage<HttpResponse>) response;
        };
    }

    private void bind(ConnectHttp where) {
        Http.get(system).bindAndHandleAsync(handler, where, materializer)
            .whenComplete((binding, failure) -> {
            if (failure == null) {
                CoordinatedShutdown.get(system).addTask(
                    CoordinatedShutdown.PhaseServiceUnbind(), "terminate " + where.port(),
                    () -> binding.terminate(Duration.ofSeconds(1))
                        .thenApply(ended -> Done.getInstance()));
            } else {
                failure.printStackTrace();
                system.terminate();
            }
        });
    }

    public static void main(String[] args) throws Exception {
        Hello hello = new Hello();
        String port = value(args, "--port");
        if (port != null) {
            hello.bind(ConnectHttp.toHost("127.0.0.1", Integer.parseInt(port)));
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            hello.bind(ConnectHttp.toHostHttps("127.0.0.1", Integer.parseInt(tlsPort))
                .withCustomHttpsContext(ConnectionContext.https(
                    Tls.context(value(args, "--cert"), value(args, "--key")))));
        }
    }
}
