import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.core.AprLifecycleListener;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http11.AbstractHttp11Protocol;
import org.apache.coyote.http2.Http2Protocol;
import org.apache.tomcat.util.net.SSLHostConfig;
import org.apache.tomcat.util.net.SSLHostConfigCertificate;
import org.apache.tomcat.util.net.openssl.OpenSSLImplementation;

public final class Hello {
    private static final class Answer extends HttpServlet {
        private final String type;
        private final byte[] body;

        Answer(String type, String body) {
            this.type = type;
            this.body = body.getBytes(StandardCharsets.UTF_8);
        }

        // Without it, Tomcat sends the body with the answer to a HEAD that upgrades to HTTP/2.
        @Override
        protected void doHead(HttpServletRequest request, HttpServletResponse response) {
            response.setContentType(type);
            response.setContentLength(body.length);
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            doHead(request, response);
            response.getOutputStream().write(body);
        }
    }

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    private static Connector connector(String protocol, String port) {
        Connector connector = new Connector(protocol);
        connector.setPort(Integer.parseInt(port));
        AbstractHttp11Protocol<?> http1 =
            (AbstractHttp11Protocol<?>) connector.getProtocolHandler();
        http1.setAddress(InetAddress.getLoopbackAddress());
        // The default closes a connection after 100 requests.
        http1.setMaxKeepAliveRequests(-1);
        return connector;
    }

    private static Connector plain(String protocol, String port, boolean h2c) {
        Connector connector = connector(protocol, port);
        if (h2c) {
            connector.addUpgradeProtocol(new Http2Protocol());
        }
        return connector;
    }

    private static Connector tls(String protocol, String port, String cert, String key) {
        Connector connector = connector(protocol, port);
        connector.setSecure(true);
        connector.setScheme("https");
        connector.setProperty("SSLEnabled", "true");
        SSLHostConfig host = new SSLHostConfig();
        SSLHostConfigCertificate certificate =
            new SSLHostConfigCertificate(host, SSLHostConfigCertificate.Type.EC);
        certificate.setCertificateFile(cert);
        certificate.setCertificateKeyFile(key);
        host.addCertificate(certificate);
        connector.addSslHostConfig(host);
        connector.addUpgradeProtocol(new Http2Protocol());
        return connector;
    }

    public static void main(String[] args) throws Exception {
        Tomcat tomcat = new Tomcat();
        // The folder that it is started in, instead of a new one beside it.
        tomcat.setBaseDir(".");
        List<String> flags = Arrays.asList(args);
        if (flags.contains("--native")) {
            tomcat.getServer().addLifecycleListener(new AprLifecycleListener());
        }
        // HTTP/1.1 is what a connector takes by default: it stands for NIO.
        String protocol = flags.contains("--connector") ? value(args, "--connector") : "HTTP/1.1";
        String port = value(args, "--port");
        if (port != null) {
            tomcat.setConnector(plain(protocol, port, flags.contains("--h2c")));
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            Connector secured = tls(protocol, tlsPort, value(args, "--cert"), value(args, "--key"));
            if (flags.contains("--openssl")) {
                secured.setProperty("sslImplementationName", OpenSSLImplementation.class.getName());
            }
            tomcat.setConnector(secured);
        }
        if (flags.contains("--no-async-io")) {
            for (Connector connector : tomcat.getService().findConnectors()) {
                connector.setProperty("useAsyncIO", "false");
            }
        }

        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "plaintext", new Answer("text/plain", "Hello, World!"));
        context.addServletMappingDecoded("/plaintext", "plaintext");
        // Tomcat brings nothing that writes JSON.
        Answer json = new Answer("application/json", "{\"message\":\"Hello, World!\"}");
        Tomcat.addServlet(context, "json", json);
        context.addServletMappingDecoded("/json", "json");

        tomcat.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                tomcat.stop();
                tomcat.destroy();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        tomcat.getServer().await();
    }
}
