package locations

import org.http4k.core.Filter
import org.http4k.core.HttpHandler
import org.http4k.core.Response
import org.http4k.core.Status.Companion.SERVICE_UNAVAILABLE
import java.time.Duration
import java.util.concurrent.atomic.AtomicInteger

/** Knows of the requests under way, for engines that would end without them. */
class UnderWay : Filter {
    private val requests = AtomicInteger()

    /** When the waiting is over; set once it has begun. */
    @Volatile
    private var end: Long? = null

    override fun invoke(next: HttpHandler): HttpHandler = { request ->
        during { refusal -> refusal ?: next(request) }
    }

    /**
     * Counts a request while [answer] is at it, which has to give the refusal where it is told one.
     */
    internal inline fun <T> during(answer: (refusal: Response?) -> T): T {
        // Counted before it looks: finish() waits for those that saw that there is time yet.
        requests.incrementAndGet()
        try {
            return answer(if (end == null) null else refusal())
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

    private fun refusal() =
        says(SERVICE_UNAVAILABLE, "The service is about to stop.").header("Connection", "close")
}
