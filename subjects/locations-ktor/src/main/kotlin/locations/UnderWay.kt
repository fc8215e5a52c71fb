package locations

import io.ktor.http.HttpHeaders
import io.ktor.http.HttpStatusCode
import io.ktor.server.application.Application
import io.ktor.server.application.ApplicationCallPipeline
import io.ktor.server.application.call
import io.ktor.server.response.header
import io.ktor.server.response.respond
import io.ktor.util.pipeline.PipelinePhase
import java.time.Duration
import java.util.concurrent.atomic.AtomicInteger

/** Knows of the requests under way: Ktor's engines would end while they wait for Elasticsearch. */
class UnderWay {
    private val requests = AtomicInteger()

    /** When the waiting is over; set once it has begun. */
    @Volatile
    private var end: Long? = null

    val stopping get() = end != null

    internal inline fun during(answer: () -> Unit) {
        requests.incrementAndGet()
        try {
            answer()
        } finally {
            requests.decrementAndGet()
        }
    }

    /**
     * Waits until all requests are answered, for [patience] at most; those that come now are
     * refused. A second caller waits for no longer than the first.
     */
    @Synchronized
    fun finish(patience: Duration) {
        val lastMoment = end ?: (System.nanoTime() + patience.toNanos())
        end = lastMoment
        while (requests.get() > 0 && System.nanoTime() < lastMoment) {
            Thread.sleep(10)
        }
    }
}

/**
 * Has [underWay] count all requests, and refuses them when it is stopping. To be called before
 * plugins come.
 */
fun Application.count(underWay: UnderWay) {
    // Around all that plugins do: it is before the first of Ktor's phases, before which plugins put
    // theirs.
    val outermost = PipelinePhase("UnderWay")
    insertPhaseBefore(ApplicationCallPipeline.Setup, outermost)
    intercept(outermost) { underWay.during { proceed() } }
    // Only here a refusal is logged like any other answer.
    intercept(ApplicationCallPipeline.Monitoring) {
        if (underWay.stopping) {
            call.response.header(HttpHeaders.Connection, "close")
            val message = Message("The service is about to stop.")
            call.respond(HttpStatusCode.ServiceUnavailable, message)
            finish()
        }
    }
}
