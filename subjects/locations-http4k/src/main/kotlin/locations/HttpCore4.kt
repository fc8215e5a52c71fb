package locations

import org.apache.http.HttpEntityEnclosingRequest
import org.apache.http.HttpRequest
import org.apache.http.HttpResponse
import org.apache.http.config.SocketConfig
import org.apache.http.entity.InputStreamEntity
import org.apache.http.impl.bootstrap.HttpServer
import org.apache.http.impl.bootstrap.ServerBootstrap
import org.apache.http.protocol.HttpContext
import org.apache.http.protocol.HttpRequestHandler
import org.http4k.core.HttpHandler
import org.http4k.core.Method
import org.http4k.core.Request
import org.http4k.core.Response
import org.http4k.core.Status.Companion.NOT_IMPLEMENTED
import org.http4k.core.then
import org.http4k.server.Http4kServer
import org.http4k.server.ServerConfig
import org.http4k.server.supportedOrNull
import java.net.InetAddress
import java.util.concurrent.TimeUnit.SECONDS

/**
 * Apache HttpCore 4.4 with the socket's settings of http4k's own module for it: a thread per
 * connection.
 */
class HttpCore4(private val port: Int) : ServerConfig {
    override fun toServer(http: HttpHandler): Http4kServer = object : Http4kServer {
        private val underWay = UnderWay()

        private val server: HttpServer = ServerBootstrap.bootstrap()
            .setLocalAddress(InetAddress.getByName(LOOPBACK))
            .setListenerPort(port)
            .setSocketConfig(SOCKET)
            .registerHandler("*", HttpCore4Handler(underWay.then(http)))
            .create()

        override fun start() = apply { server.start() }

        /**
         * HttpCore interrupts its threads when it stops, so that a request under way would fail.
         */
        override fun stop() = apply {
            underWay.finish(STOP_PATIENCE)
            // The second is for writing the last answers.
            server.shutdown(1, SECONDS)
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

private class HttpCore4Handler(private val http: HttpHandler) : HttpRequestHandler {
    override fun handle(request: HttpRequest, response: HttpResponse, context: HttpContext) =
        (request.toHttp4k()?.let(http) ?: Response(NOT_IMPLEMENTED)).writeTo(response)
}

private fun HttpRequest.toHttp4k(): Request? = Method.supportedOrNull(
    requestLine.method,
)?.let { method ->
    val request = Request(method, requestLine.uri).headers(allHeaders.map { it.name to it.value })
    val entity = (this as? HttpEntityEnclosingRequest)?.entity
    if (entity == null) request else request.body(entity.content, entity.contentLength)
}

private fun Response.writeTo(response: HttpResponse) {
    response.setStatusCode(status.code)
    response.setReasonPhrase(status.description)
    headers.forEach { (name, value) -> response.addHeader(name, value) }
    response.entity = InputStreamEntity(body.stream, body.length ?: -1)
}
