import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.core.json.JsonObject;
import io.vertx.core.net.PemKeyCertOptions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public final class Hello extends AbstractVerticle {
    private final String[] args;

    private Hello(String[] args) {
        this.args = args;
    }

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    private static void answer(HttpServerRequest request) {
        switch (request.path()) {
            case "/plaintext":
                answer(request, 200, "text/plain", Buffer.buffer("Hello, World!"));
                break;
            case "/json":
                JsonObject json = new JsonObject().put("message", "Hello, World!");
                answer(request, 200, "application/json", json.toBuffer());
                break;
            default:
                answer(request, 404, "text/plain", Buffer.buffer("Not Found"));
        }
    }

    private static void answer(HttpServerRequest request, int status, String type, Buffer body) {
        HttpServerResponse response =
            request.response().setStatusCode(status).putHeader("content-type", type);
        if (request.method().equals(HttpMethod.HEAD)) {
            // Over HTTP/2 the library does not leave out the body of a response to HEAD.
            response.putHeader("content-length", String.valueOf(body.length())).end();
        } else {
            response.end(body);
        }
    }

    private static HttpServerOptions on(String port) {
        return new HttpServerOptions().setHost("127.0.0.1").setPort(Integer.parseInt(port));
    }

    @Override
    public void start(Promise<Void> started) {
        List<Future<?>> listening = new ArrayList<>();
        String port = value(args, "--port");
        if (port != null) {
            // The default is to speak HTTP/2 on every plain port.
            boolean h2c = Arrays.asList(args).contains("--h2c");
            HttpServerOptions plain = on(port).setHttp2ClearTextEnabled(h2c);
            listening.add(vertx.createHttpServer(plain).requestHandler(Hello::answer).listen());
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            HttpServerOptions secured = on(tlsPort)
                .setSsl(true)
                .setUseAlpn(true)
                .setKeyCertOptions(new PemKeyCertOptions()
                    .setCertPath(value(args, "--cert"))
                    .setKeyPath(value(args, "--key")));
            listening.add(vertx.createHttpServer(secured).requestHandler(Hello::answer).listen());
        }
        Future.all(listening).<Void>mapEmpty().onComplete(started);
    }

    public static void main(String[] args) {
        int instances = Integer.parseInt(value(args, "--instances"));
        Vertx vertx = Vertx.vertx();
        vertx.deployVerticle(() -> new Hello(args), new DeploymentOptions().setInstances(instances))
            .onFailure(failure -> {
                failure.printStackTrace();
                vertx.close();
            });
        Runtime.getRuntime().addShutdownHook(
            new Thread(() -> vertx.close().toCompletionStage().toCompletableFuture().join()));
    }
}
