package locations

import org.apache.http.HttpHost
import org.elasticsearch.client.RequestOptions
import org.elasticsearch.client.RestClient
import org.elasticsearch.client.RestHighLevelClient
import java.net.URI
import java.net.URISyntaxException
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.TimeoutException

const val ELASTICSEARCH_URL = "ELASTICSEARCH_URL"

private const val HOW_TO =
    "set $ELASTICSEARCH_URL to where it listens, for instance http://127.0.0.1:9200."

/** For how long Elasticsearch may be silent before the request that needs it has failed. */
private val PATIENCE = Duration.ofSeconds(5)

/** Less at the start, to which the JVM's own comes on top. */
private val PATIENCE_AT_START = Duration.ofSeconds(4)

/** A client of the Elasticsearch at [url], which has answered a first request. */
fun connectTo(url: String?): RestHighLevelClient {
    val host = hostOf(url)
    val client = RestHighLevelClient(RestClient.builder(host).setRequestConfigCallback {
        it.setConnectTimeout(PATIENCE.toMillis().toInt())
            .setSocketTimeout(PATIENCE.toMillis().toInt())
    })
    client.awaitAnswerOf(host)
    return client
}

private fun hostOf(url: String?): HttpHost {
    if (url.isNullOrBlank()) throw Refusal("It is not known where Elasticsearch is: $HOW_TO")
    val uri = try {
        URI(url)
    } catch (malformed: URISyntaxException) {
        throw Refusal("$ELASTICSEARCH_URL is malformed (${malformed.inShort()}): $HOW_TO")
    }
    val isHttp = uri.scheme in setOf("http", "https")
    val isOrigin = isHttp && uri.host != null && uri.path in setOf("", "/")
    if (!isOrigin || uri.port > 65535) {
        throw Refusal("$ELASTICSEARCH_URL is malformed ($url): $HOW_TO")
    }
    return HttpHost(uri.host, uri.port, uri.scheme)
}

private fun RestHighLevelClient.awaitAnswerOf(host: HttpHost) {
    val answer = CompletableFuture.supplyAsync { info(RequestOptions.DEFAULT) }
    val trouble = try {
        answer.get(PATIENCE_AT_START.toMillis(), MILLISECONDS)
        return
    } catch (silence: TimeoutException) {
        "is silent for ${PATIENCE_AT_START.toSeconds()} s: see why"
    } catch (failure: ExecutionException) {
        "does not answer as it should (${failure.inShort()}): start it"
    }
    throw Refusal("Elasticsearch at $host $trouble, or $HOW_TO")
}
