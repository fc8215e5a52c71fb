package locations

import org.apache.hc.core5.http.ClassicHttpRequest
import org.apache.hc.core5.http.ClassicHttpResponse
import org.apache.hc.core5.http.ContentType
import org.apache.hc.core5.http.impl.bootstrap.HttpServer
import org.apache.hc.core5.http.impl.bootstrap.ServerBootstrap
import org.apache.hc.core5.http.io.HttpRequestHandler
import org.apache.hc.core5.http.io.SocketConfig
import org.apache.hc.core5.http.io.entity.InputStreamEntity
import org.apache.hc.core5.http.protocol.HttpContext
import org.apache.hc.core5.io.CloseMode
import org.apache.hc.core5.util.Timeout
import org.http4k.core.HttpHandler
import org.http4k.core.Method
import org.http4k.core.Request
import org.http4k.core.Response
import org.http4k.core.Status.Companion.NOT_IMPLEMENTED
import org.http4k.core.then
import org.http4k.lens.Header.CONTENT_TYPE
import org.http4k.server.Http4kServer
import org.http4k.server.ServerConfig
import org.http4k.server.supportedOrNull
import java.net.InetAddress

/**
 * Apache HttpCore 5 with the socket's settings of http4k's own module for it: a thread per
 * connection.
 */
class HttpCore5(private val port: Int) : ServerConfig {
    override fun toServer(http: HttpHandler): Http4kServer = object : Http4kServer {
        private val underWay = UnderWay()

        private val server: HttpServer = ServerBootstrap.bootstrap()
            .setLocalAddress(InetAddress.getByName(LOOPBACK))
            .setListenerPort(port)
            .setSocketConfig(SOCKET)
            .register("*", HttpCore5Handler(underWay.then(http)))
            .create()

        override fun start() = apply { server.start() }

        /**
         * HttpCore interrupts its threads when it stops, so that a request under way would fail.
         */
        override fun stop() = apply {
            underWay.finish(STOP_PATIENCE)
            // The second is for writing the last answers.
            server.close(CloseMode.GRACEFUL, Timeout.ofSeconds(1))
        }

        override fun port() = server.localPort
    }
}

private val SOCKET = SocketConfig.custom()
    .setTcpNoDelay(true)
    .setSoKeepAlive(true)
    .setSoReuseAddress(true)
    .setBacklogSize(1000)
    .build()

private class HttpCore5Handler(private val http: HttpHandler) : HttpRequestHandler {
    override fun handle(
        request: ClassicHttpRequest,
        response: ClassicHttpResponse,
        context: HttpContext,
    ) = (request.toHttp4k()?.let(http) ?: Response(NOT_IMPLEMENTED)).writeTo(response)
}

private fun ClassicHttpRequest.toHttp4k(): Request? = Method.supportedOrNull(
    method,
)?.let { method ->
    val request = Request(method, path).headers(headers.map { it.name to it.value })
    val entity = entity
    if (entity == null) request else request.body(entity.content, entity.contentLength)
}

private fun Response.writeTo(response: ClassicHttpResponse) {
    response.code = status.code
    response.reasonPhrase = status.description
    headers.forEach { (name, value) -> response.addHeader(name, value) }
    val type = CONTENT_TYPE(this)?.let { ContentType.parse(it.toHeaderValue()) }
    response.entity = InputStreamEntity(body.stream, body.length ?: -1, type)
}
