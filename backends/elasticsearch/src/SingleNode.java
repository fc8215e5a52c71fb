import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.transport.Netty4Plugin;

/** A cluster of one node, which keeps all that it writes in one folder. */
final class SingleNode extends Node {
    private static final String NAME = "dyno";

    SingleNode(Path home, Path data, String port) {
        super(
            InternalSettingsPreparer.prepareEnvironment(
                settings(home, data, port), Map.of(), null, () -> NAME),
            List.of(Netty4Plugin.class, GeoShapes.class),
            true);
    }

    private static Settings settings(Path home, Path data, String port) {
        return Settings.builder()
            .put("cluster.name", NAME)
            .put("path.home", home.toString())
            .put("path.data", data.toString())
            .put("network.host", "127.0.0.1")
            .put("http.port", port)
            // The protocol between nodes cannot be switched off; 0 is any port that is free.
            .put("transport.port", "0")
            .put("discovery.type", "single-node")
            .put("action.auto_create_index", false)
            // A disk that is nearly full would make the indices read-only, and is looked at every
            // 30 s.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            // It would look for changed scripts every 60 s; there are none.
            .put("resource.reload.enabled", false)
            .build();
    }
}
