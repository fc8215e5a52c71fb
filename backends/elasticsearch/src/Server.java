import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.elasticsearch.Version;
import org.elasticsearch.node.Node;

/** {@code Server INDEXED WORK PORT}: serves a copy of the indexed data from a folder of its own. */
public final class Server {
    private static final Logger LOG = LogManager.getLogger(Server.class);

    /** The copies can be written to, whatever the originals are. */
    private static void copy(Path from, Path to) throws IOException {
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(from)) {
            paths = walk.toList();
        }
        for (Path path : paths) {
            Path copy = to.resolve(from.relativize(path));
            if (Files.isDirectory(path)) {
                Files.createDirectories(copy);
            } else {
                Files.copy(path, copy);
            }
        }
    }

    private static void stop(Node node) {
        try {
            node.close();
            node.awaitClose(5, TimeUnit.SECONDS);
            LOG.info("stopped");
        } catch (IOException | InterruptedException e) {
            LOG.error("cannot stop", e);
        }
    }

    public static void main(String[] args) throws Exception {
        Path indexed = Path.of(args[0]);
        Path work = Path.of(args[1]);
        String port = args[2];

        Path data = work.resolve("data");
        copy(indexed, data);
        Node node = new SingleNode(work, data, port);
        // Before the start, so that a node that cannot start is closed too.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(node)));
        node.start();
        LOG.info("Elasticsearch {} listens on 127.0.0.1:{}", Version.CURRENT, port);
        // All threads of the node are daemons.
        new CountDownLatch(1).await();
    }
}
