package locations

import org.elasticsearch.client.RestHighLevelClient
import org.http4k.core.HttpHandler
import org.http4k.server.Http4kServer
import org.http4k.server.asServer
import org.slf4j.LoggerFactory
import kotlin.concurrent.thread
import kotlin.system.exitProcess

private val log = LoggerFactory.getLogger("locations")

/** Why the service does not start, in a line for the user. */
class Refusal(message: String) : Exception(message)

fun main(args: Array<String>) {
    try {
        serve(optionsOf(args.toList()))
    } catch (refusal: Refusal) {
        System.err.println(refusal.message)
        exitProcess(1)
    }
}

private fun serve(options: Options) {
    val elasticsearch = connectTo(System.getenv(ELASTICSEARCH_URL))
    val server = listen(options, api(options.routing, Locations(elasticsearch)))
    val stopping = thread(start = false, name = "stop") { stop(server, elasticsearch) }
    Runtime.getRuntime().addShutdownHook(stopping)
    log.info(
        "Listening on port {} with {}, routing {}",
        server.port(),
        options.engine.word,
        options.routing.word,
    )
    server.block()
}

private fun listen(options: Options, api: HttpHandler): Http4kServer = try {
    api.asServer(options.engine.on(options.port)).start()
} catch (failure: Exception) {
    throw Refusal(
        "Port ${options.port} cannot be listened on (${failure.inShort()}): " +
            "name a free one with --port.",
    )
}

private fun stop(server: Http4kServer, elasticsearch: RestHighLevelClient) {
    log.info("Stopping")
    // Some engines take longer than they are told to; what is left then ends with the JVM.
    thread(isDaemon = true, name = "stop engine") { server.stop() }.join(STOP_LIMIT.toMillis())
    elasticsearch.close()
}

/** What went wrong at the root of it, in one line. */
fun Throwable.inShort(): String {
    val root = generateSequence(this) { it.cause }.last()
    return root.message?.lineSequence()?.first() ?: root.javaClass.simpleName
}
