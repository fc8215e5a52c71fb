package locations

import io.ktor.server.application.ApplicationStopPreparing
import io.ktor.server.application.ApplicationStopped
import io.ktor.server.engine.ApplicationEngine
import org.elasticsearch.client.RestHighLevelClient
import org.slf4j.LoggerFactory
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
    listen(options, elasticsearch)
    log.info("Listening on port {} with {}", options.port, options.engine.word)
    Thread.currentThread().join()
}

private fun listen(options: Options, elasticsearch: RestHighLevelClient) {
    val underWay = UnderWay()
    val engine = options.engine.on(options.port, underWay) {
        api(Locations(elasticsearch), underWay)
    }
    // Ktor's own shutdown hook stops the engine, and tells of it before it closes any connection.
    engine.environment.monitor.subscribe(ApplicationStopPreparing) {
        underWay.finish(STOP_PATIENCE)
    }
    engine.environment.monitor.subscribe(ApplicationStopped) { elasticsearch.close() }
    start(engine, options.port)
}

private fun start(engine: ApplicationEngine, port: Int) = try {
    engine.start()
} catch (failure: Exception) {
    throw Refusal(
        "Port $port cannot be listened on (${failure.inShort()}): name a free one with --port.",
    )
}

/** What went wrong at the root of it, in one line. */
fun Throwable.inShort(): String {
    val root = generateSequence(this) { it.cause }.last()
    return root.message?.lineSequence()?.first() ?: root.javaClass.simpleName
}
