package locations

import io.ktor.http.ContentType
import io.ktor.http.HttpHeaders
import io.ktor.http.HttpStatusCode
import io.ktor.server.application.ApplicationCall
import io.ktor.server.application.ApplicationStopPreparing
import io.ktor.server.application.createApplicationPlugin
import io.ktor.server.application.install
import io.ktor.server.engine.ApplicationEngine
import io.ktor.server.engine.ApplicationEngineFactory
import io.ktor.server.engine.BaseApplicationEngine
import io.ktor.server.engine.embeddedServer
import io.ktor.server.request.ApplicationRequest
import io.ktor.server.request.contentLength
import io.ktor.server.request.httpMethod
import io.ktor.server.request.uri
import io.ktor.server.response.header
import io.ktor.server.response.respondOutputStream
import io.ktor.utils.io.jvm.javaio.toInputStream
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.http4k.core.HttpHandler
import org.http4k.core.Method
import org.http4k.core.Request
import org.http4k.core.Response
import org.http4k.core.Status.Companion.NOT_IMPLEMENTED
import org.http4k.lens.Header.CONTENT_TYPE
import org.http4k.server.Http4kServer
import org.http4k.server.ServerConfig
import org.http4k.server.supportedOrNull

/**
 * An engine of Ktor's. As in http4k's own modules for them the handler, which blocks, has Ktor's
 * default threads.
 */
class KtorServer<E : ApplicationEngine, C : BaseApplicationEngine.Configuration>(
    private val port: Int,
    private val factory: ApplicationEngineFactory<E, C>,
    private val configure: C.() -> Unit,
) : ServerConfig {
    override fun toServer(http: HttpHandler): Http4kServer = object : Http4kServer {
        private val underWay = UnderWay()

        private val engine = embeddedServer(factory, port, LOOPBACK, configure = configure) {
            install(http4k(http, underWay))
            // Ktor has a shutdown hook of its own: should it be first, this comes before it closes
            // anything.
            environment.monitor.subscribe(ApplicationStopPreparing) {
                underWay.finish(STOP_PATIENCE)
            }
        }

        override fun start() = apply { engine.start() }

        override fun stop() = apply {
            underWay.finish(STOP_PATIENCE)
            // What is left are connections that idle, but for the last answers that are being
            // written.
            engine.stop(500, 2000)
        }

        override fun port() = runBlocking { engine.resolvedConnectors().first().port }
    }
}

private fun http4k(http: HttpHandler, underWay: UnderWay) = createApplicationPlugin("http4k") {
    onCall { call ->
        // Counted here already: a request may wait long for one of the threads, which are as few as
        // CPUs.
        underWay.during { refusal ->
            withContext(Dispatchers.Default) {
                val answer = refusal ?: call.request.toHttp4k()?.let(http)
                call.respond(answer ?: Response(NOT_IMPLEMENTED))
            }
        }
    }
}

private fun ApplicationRequest.toHttp4k(): Request? = Method.supportedOrNull(
    httpMethod.value,
)?.let { method ->
    Request(method, uri)
        .headers(headers.entries().flatMap { (name, values) -> values.map { name to it } })
        .body(receiveChannel().toInputStream(), contentLength())
}

private suspend fun ApplicationCall.respond(answer: Response) {
    answer.headers
        .filterNot { (name, _) -> name.isContentType() || HttpHeaders.isUnsafe(name) }
        .forEach { (name, value) -> response.header(name, value.orEmpty()) }
    val type = CONTENT_TYPE(answer)?.let { ContentType.parse(it.toHeaderValue()) }
    val status = HttpStatusCode.fromValue(answer.status.code)
    respondOutputStream(type, status) { answer.body.stream.copyTo(this) }
}

/** Ktor has the type of a body as a value of its own. */
private fun String.isContentType() = equals(HttpHeaders.ContentType, ignoreCase = true)
