package locations

import io.ktor.server.application.Application
import io.ktor.server.cio.CIO as Cio
import io.ktor.server.engine.ApplicationEngine
import io.ktor.server.engine.embeddedServer
import io.ktor.server.jetty.Jetty
import io.ktor.server.netty.Netty
import java.time.Duration
import kotlin.concurrent.thread

private const val LOOPBACK = "127.0.0.1"

/** For how long requests under way are waited for: two lookups of 5 s, and then it must end. */
val STOP_PATIENCE: Duration = Duration.ofSeconds(11)

/**
 * What listens for Ktor; each as it is by default, but that CIO gives requests under way more time
 * at its end.
 */
enum class Engine(
    val on: (port: Int, underWay: UnderWay, module: Application.() -> Unit) -> ApplicationEngine,
) {
    NETTY({ port, _, module -> embeddedServer(Netty, port, LOOPBACK, module = module) }),
    CIO(::cio),
    JETTY({ port, _, module -> embeddedServer(Jetty, port, LOOPBACK, module = module) });

    val word = name.lowercase()
}

private fun cio(port: Int, underWay: UnderWay, module: Application.() -> Unit): ApplicationEngine {
    val patience = STOP_PATIENCE.toMillis()
    val engine = embeddedServer(
        Cio,
        port,
        LOOPBACK,
        configure = { shutdownGracePeriod = patience },
        module = module,
    )
    // Until that period is over it would wait for connections that idle, too.
    Runtime.getRuntime().addShutdownHook(thread(start = false, name = "stop") {
        underWay.finish(STOP_PATIENCE)
        engine.stop(500, 2000)
    })
    return engine
}
