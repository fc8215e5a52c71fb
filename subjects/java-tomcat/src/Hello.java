import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.coyote.http11.AbstractHttp11Protocol;
import org.apache.coyote.http2.Http2Protocol;
import org.apache.tomcat.util.net.SSLHostConfig;
import org.apache.tomcat.util.net.SSLHostConfigCertificate;

public final class Hello {
    private static final class Answer extends HttpServlet {
        private final String type;
        private final byte[] body;

        Answer(String type, String body) {
            this.type = type;
            this.body = body.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.setContentType(type);
            response.setContentLength(body.length);
            response.getOutputStream().write(body);
        }
    }

    /** The value after a flag, or null. */
    private static String value(String[] args, String flag) {
        int at = Arrays.asList(args).indexOf(flag);
        return at < 0 || at + 1 == args.length ? null : args[at + 1];
    }

    private static Connector connector(String port) {
        Connector connector = new Connector();
        connector.setPort(Integer.parseInt(port));
        AbstractHttp11Protocol<?> http1 = (AbstractHttp11Protocol<?>) connector.getProtocolHandler();
        http1.setAddress(InetAddress.getLoopbackAddress());
        // The default closes a connection after 100 requests.
        http1.setMaxKeepAliveRequests(-1);
        return connector;
    }

    private static Connector plain(String port, boolean h2c) {
        Connector connector = connector(port);
        if (h2c) {
            connector.addUpgradeProtocol(new Http2Protocol());
        }
        return connector;
    }

    private static Connector tls(String port, String cert, String key) {
        Connector connector = connector(port);
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
        String port = value(args, "--port");
        if (port != null) {
            tomcat.setConnector(plain(port, Arrays.asList(args).contains("--h2c")));
        }
        String tlsPort = value(args, "--tls-port");
        if (tlsPort != null) {
            tomcat.setConnector(tls(tlsPort, value(args, "--cert"), value(args, "--key")));
        }

        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "plaintext", new Answer("text/plain", "Hello, World!"));
        context.addServletMappingDecoded("/plaintext", "plaintext");
        // Tomcat brings nothing that writes JSON.
        Tomcat.addServlet(context, "json", new Answer("application/json", "{\"message\":\"Hello, World!\"}"));
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
