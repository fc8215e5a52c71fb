import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

final class Tls {
    static SSLContext context(String cert, String key) throws Exception {
        KeyManagerFactory keys =
            KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(keyStore(Path.of(cert), Path.of(key)), new char[0]);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
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
}
