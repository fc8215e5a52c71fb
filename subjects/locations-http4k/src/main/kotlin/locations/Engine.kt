package locations

import io.ktor.server.cio.CIO
import org.eclipse.jetty.server.ServerConnector
import org.http4k.server.ConnectorBuilder
import org.http4k.server.Jetty
import org.http4k.server.Netty
import org.http4k.server.ServerConfig
import org.http4k.server.ServerConfig.StopMode.Graceful
import org.http4k.server.SunHttp
import org.http4k.server.Undertow
import java.time.Duration
import io.ktor.server.netty.Netty as KtorNetty

const val LOOPBACK = "127.0.0.1"

/** For how long requests under way are waited for: two lookups of 5 s, and then it must end. */
val STOP_PATIENCE: Duration = Duration.ofSeconds(11)

/** For how long an engine may take to stop, with that. */
val STOP_LIMIT: Duration = Duration.ofSeconds(13)

/**
 * What listens and hands requests to http4k; each as http4k has it by default, but that it stops
 * gracefully.
 */
enum class Engine(val on: (port: Int) -> ServerConfig) {
    UNDERTOW({ Undertow(it, enableHttp2 = false, stopMode = Graceful(STOP_PATIENCE)) }),
    JETTY({ Jetty(it, Graceful(STOP_PATIENCE), loopback(it)) }),
    NETTY({ Netty(it) }),
    APACHE(::HttpCore5),
    APACHE4(::HttpCore4),
    SUNHTTP({ SunHttp(it, Graceful(STOP_PATIENCE)) }),
    KTORCIO({ KtorServer(it, CIO) { shutdownGracePeriod = STOP_PATIENCE.toMillis() } }),
    KTORNETTY({ KtorServer(it, KtorNetty) {} });

    val word = name.lowercase()
}

private fun loopback(port: Int): ConnectorBuilder = { server ->
    ServerConnector(server).also {
        it.host = LOOPBACK
        it.port = port
    }
}
