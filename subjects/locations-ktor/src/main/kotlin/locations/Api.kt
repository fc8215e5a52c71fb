package locations

import io.ktor.http.ContentType
import io.ktor.http.HttpStatusCode.Companion.BadRequest
import io.ktor.http.HttpStatusCode.Companion.InternalServerError
import io.ktor.http.HttpStatusCode.Companion.NotFound
import io.ktor.http.HttpStatusCode.Companion.ServiceUnavailable
import io.ktor.http.Parameters
import io.ktor.http.URLDecodeException
import io.ktor.http.decodeURLQueryComponent
import io.ktor.serialization.jackson.jackson
import io.ktor.server.application.Application
import io.ktor.server.application.ApplicationCall
import io.ktor.server.application.call
import io.ktor.server.application.install
import io.ktor.server.plugins.callloging.CallLogging
import io.ktor.server.plugins.callloging.processingTimeMillis
import io.ktor.server.plugins.contentnegotiation.ContentNegotiation
import io.ktor.server.plugins.statuspages.StatusPages
import io.ktor.server.plugins.statuspages.StatusPagesConfig
import io.ktor.server.request.httpMethod
import io.ktor.server.request.path
import io.ktor.server.request.uri
import io.ktor.server.response.respond
import io.ktor.server.response.respondText
import io.ktor.server.routing.get
import io.ktor.server.routing.routing
import org.slf4j.LoggerFactory

data class Message(val message: String)

private class CityQuery(val id: Long, val language: String)

private class BadParameters(problems: List<String>) :
    Exception(problems.joinToString("; ", postfix = "."))

private class NoSuchCity(id: Long) : Exception("There is no city $id.")

private val log = LoggerFactory.getLogger("requests")

private val INTEGER = Regex("[+-]?[0-9]+")
private val TWO_LETTERS = Regex("[A-Za-z]{2}")

fun Application.api(locations: Locations, underWay: UnderWay) {
    count(underWay)
    install(CallLogging) {
        logger = log
        format(::logLine)
    }
    // An answer is a hundred bytes: it goes in one piece, with its length.
    install(ContentNegotiation) { jackson(streamRequestBody = false) }
    install(StatusPages) {
        explainRefusals()
        explainFailures()
    }
    routes(locations)
}

private fun Application.routes(locations: Locations) {
    val apiDocs = checkNotNull(environment.classLoader.getResource("openapi.json")).readText()
    routing {
        get("/") { call.respond(Message("locations is ready")) }
        get("/api-docs") { call.respondText(apiDocs, ContentType.Application.Json) }
        get("/city/v1/get") {
            // Ktor would decode them all at once, and not tell which one cannot be.
            val query = cityQueryOf(call.request.rawQueryParameters)
            call.respond(locations.city(query.id, query.language) ?: throw NoSuchCity(query.id))
        }
    }
}

/** All parameters are looked at before one is complained of, so that all that are bad are told. */
private fun cityQueryOf(parameters: Parameters): CityQuery {
    val problems = mutableListOf<String>()
    val id = parameters.read("id", "a city's number, of 64 bits at most", problems) {
        if (it matches INTEGER) it.toLongOrNull() else null
    }
    val language = parameters.read("language", "two letters, such as en", problems) {
        it.takeIf(TWO_LETTERS::matches)
    }
    if (id == null || language == null) throw BadParameters(problems)
    return CityQuery(id, language)
}

private fun <T> Parameters.read(
    name: String,
    meaning: String,
    problems: MutableList<String>,
    parse: (String) -> T?,
): T? {
    val encoded = this[name]
    val value = encoded?.decoded()?.let(parse)
    if (value == null) {
        val fault = if (encoded == null) "missing" else "malformed"
        problems += "$name is $fault: it must be $meaning"
    }
    return value
}

private fun String.decoded(): String? = try {
    decodeURLQueryComponent(plusIsSpace = true)
} catch (malformed: URLDecodeException) {
    null
}

private fun StatusPagesConfig.explainRefusals() {
    exception<BadParameters> { call, refusal -> call.respond(BadRequest, refusal.asMessage()) }
    exception<NoSuchCity> { call, refusal -> call.respond(NotFound, refusal.asMessage()) }
    unhandled { call ->
        val place = "${call.request.httpMethod.value} ${call.request.path()}"
        call.respond(NotFound, Message("There is nothing at $place."))
    }
}

private fun StatusPagesConfig.explainFailures() {
    exception<Unavailable> { call, failure ->
        log.warn(failure.message)
        call.respond(ServiceUnavailable, failure.asMessage())
    }
    exception<Exception> { call, failure ->
        log.error("{} {} has failed", call.request.httpMethod.value, call.request.uri, failure)
        val message = Message("The request has failed, and the service's log says why.")
        call.respond(InternalServerError, message)
    }
}

private fun Exception.asMessage() = Message(message.orEmpty())

private fun logLine(call: ApplicationCall): String {
    val status = call.response.status()?.value
    val request = "${call.request.httpMethod.value} ${call.request.uri}"
    return "$request $status ${call.processingTimeMillis()} ms"
}
