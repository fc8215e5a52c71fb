import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.elasticsearch.action.bulk.BulkRequest;
import org.elasticsearch.action.bulk.BulkResponse;
import org.elasticsearch.action.index.IndexRequest;
import org.elasticsearch.client.Client;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.xcontent.XContentType;

/**
 * {@code Indexer SOURCE HOME}: indexes all places of SOURCE; what the server needs is HOME/data
 * then.
 */
public final class Indexer {
    private static final Logger LOG = LogManager.getLogger(Indexer.class);
    private static final int DOCUMENTS_PER_BULK = 200;
    /** A thread of Elasticsearch's that dies of an error would be waited for without end. */
    private static final String MOST_TIME_PER_BULK = "2m";

    private final Client client;
    private final String definition;

    private Indexer(Client client, String definition) {
        this.client = client;
        this.definition = definition;
    }

    private void index(String name, Stream<Map<String, Object>> documents) {
        client.admin().indices().prepareCreate(name).setSource(definition, XContentType.JSON).get();
        int count = 0;
        Iterator<Map<String, Object>> rest = documents.iterator();
        while (rest.hasNext()) {
            count += bulk(name, rest);
        }
        finish(name);
        LOG.info("{}: {} documents", name, count);
    }

    /** Takes from the documents that are left, and returns how many. */
    private int bulk(String name, Iterator<Map<String, Object>> rest) {
        BulkRequest request = new BulkRequest(name);
        while (rest.hasNext() && request.numberOfActions() < DOCUMENTS_PER_BULK) {
            Map<String, Object> document = rest.next();
            String id = document.get("id").toString();
            request.add(new IndexRequest().id(id).source(document, XContentType.JSON));
        }
        BulkResponse response = client.bulk(request).actionGet(MOST_TIME_PER_BULK);
        if (response.hasFailures()) {
            throw new IllegalStateException(response.buildFailureMessage());
        }
        return request.numberOfActions();
    }

    /**
     * One segment, nothing left to be replayed from the log of changes, and no changes from now on.
     */
    private void finish(String name) {
        client.admin().indices().prepareForceMerge(name).setMaxNumSegments(1).get();
        client.admin().indices().prepareFlush(name).setForce(true).get();
        Settings settings = Settings.builder().put("index.blocks.write", true).build();
        client.admin().indices().prepareUpdateSettings(name).setSettings(settings).get();
    }

    public static void main(String[] args) throws Exception {
        Path source = Path.of(args[0]);
        Path home = Path.of(args[1]);

        List<Map<String, String>> regions = Table.read(source.resolve("data/regions.tsv"));
        List<Map<String, String>> cities = Table.read(source.resolve("data/cities.tsv"));
        List<Map<String, String>> parts = Table.read(source.resolve("data/village-names.tsv"));
        List<Map<String, String>> villages = Villages.generate(regions, parts);
        String definition = Files.readString(source.resolve("index.json"));

        try (SingleNode node = new SingleNode(home, home.resolve("data"), "0")) {
            node.start();
            Indexer indexer = new Indexer(node.client(), definition);
            indexer.index("region", regions.stream().map(Places::region));
            indexer.index(
                "city",
                Stream.concat(
                        cities.stream().map(Places::city),
                        villages.stream().map(Places::village)));
        }
    }
}
