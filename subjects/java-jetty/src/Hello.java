import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import org.eclipse.jetty.alpn.server.ALPNServerConnectionFactory;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http.pathmap.PathSpec;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2ServerConnectionFactory;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.SecureRequestCustomizer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.SslConnectionFactory;
import org.eclipse.jetty.server.handler.PathMappingsHandler;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.ajax.JSON;
import org.eclipse.jetty.util.ssl.SslContextFactory;

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

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    private static void listen(Server server, String port, ConnectionFactory... protocols) {
        ServerConnector connector = new ServerConnector(server, protocols);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(port));
        // The default of 30 s would close connections that a slow load leaves idle.
        connector.setIdleTimeout(60_000);
        server.addConnector(connector);
    }

    /** HTTP/1.1, and HTTP/2 both by prior knowledge and by upgrade. */
    private static ConnectionFactory[] plain(boolean h2c) {
        HttpConfiguration config = new HttpConfiguration();
        HttpConnectionFactory http1 = new HttpConnectionFactory(config);
        return h2c
            ? new ConnectionFactory[] {http1, new HTTP2CServerConnectionFactory(config)}
            : new ConnectionFactory[] {http1};
    }

    /** HTTP/1.1 and HTTP/2, as ALPN has it. */
    private static ConnectionFactory[] tls(String cert, String key) throws Exception {
        SslContextFactory.Server context = new SslContextFactory.Server();
        context.setKeyStore(keyStore(Path.of(cert), Path.of(key)));
        context.setKeyStorePassword("");
        HttpConfiguration config = new HttpConfiguration();
        config.addCustomizer(new SecureRequestCustomizer());
        HttpConnectionFactory http1 = new HttpConnectionFactory(config);
        HTTP2ServerConnectionFactory http2 = new HTTP2ServerConnectionFactory(config);
        ALPNServerConnectionFactory alpn = new ALPNServerConnectionFactory();
        alpn.setDefaultProtocol(http1.getProtocol());
        return new ConnectionFactory[] {
            new SslConnectionFactory(context, alpn.getProtocol()), alpn, http2, http1
        };
    }

    /** A key store of PEM files, which the JDK cannot read by itself. */
    private static KeyStore keyStore(Path cert, Path key) throws Exception {
        String pem = Files.readString(key).replaceAll("-----[A-Z ]+-----", "");
        byte[] pkcs8 = Base64.getMimeDecoder().decode(pem);
        PrivateKey privateKey =
            KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(pkcs8));
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream chain = Files.newInputStream(cert)) {
            Certificate[] certificates = CertificateFactory.getInstance("X.509")
                .generateCertificates(chain).toArray(Certificate[]::new);
            store.setKeyEntry("server", privateKey, new char[0], certificates);
        }
        return store;
    }

    public static void main(String[] args) throws Exception {
        Server server = new Server();
        String port = value(args, "--port");
        if (port != null) {
            listen(server, port, plain(Arrays.asList(args).contains("--h2c")));
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            listen(server, tlsPort, tls(value(args, "--cert"), value(args, "--key")));
        }

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
