package locations

import org.http4k.contract.ErrorResponseRenderer
import org.http4k.contract.RouteMetaDsl
import org.http4k.contract.Tag
import org.http4k.contract.contract
import org.http4k.contract.meta
import org.http4k.contract.openapi.ApiInfo
import org.http4k.contract.openapi.ApiRenderer
import org.http4k.contract.openapi.OpenAPIJackson
import org.http4k.contract.openapi.v3.OpenApi3
import org.http4k.core.Body
import org.http4k.core.ContentType.Companion.APPLICATION_JSON
import org.http4k.core.Filter
import org.http4k.core.HttpHandler
import org.http4k.core.Method.GET
import org.http4k.core.Request
import org.http4k.core.Response
import org.http4k.core.Status
import org.http4k.core.Status.Companion.BAD_REQUEST
import org.http4k.core.Status.Companion.INTERNAL_SERVER_ERROR
import org.http4k.core.Status.Companion.NOT_FOUND
import org.http4k.core.Status.Companion.OK
import org.http4k.core.Status.Companion.SERVICE_UNAVAILABLE
import org.http4k.core.then
import org.http4k.core.with
import org.http4k.filter.ResponseFilters.ReportHttpTransaction
import org.http4k.filter.ServerFilters.CatchLensFailure
import org.http4k.format.Jackson.auto
import org.http4k.lens.Header.CONTENT_TYPE
import org.http4k.lens.Lens
import org.http4k.lens.LensFailure
import org.http4k.lens.Missing
import org.http4k.lens.ParamMeta.IntegerParam
import org.http4k.lens.Query
import org.http4k.lens.Validator
import org.http4k.routing.Router.Companion.orElse
import org.http4k.routing.RoutingHttpHandler
import org.http4k.routing.bind
import org.http4k.routing.routes
import org.slf4j.LoggerFactory

/** How a request finds its handler. */
enum class Routing(val routes: (Locations) -> RoutingHttpHandler) {
    /** By http4k's contracts, which check parameters and describe themselves. */
    CONTRACT(::contractRoutes),

    /** By http4k's plain routes, whose description is a file. */
    PLAIN(::plainRoutes);

    val word = name.lowercase()
}

data class FeaturedCities(val cities: List<LocalizedCity>)

data class Message(val message: String)

private val log = LoggerFactory.getLogger("requests")

private const val CITY_PATH = "/city/v1/get"
private const val FEATURED_PATH = "/city/v1/featured"
private const val API_DOCS_PATH = "/api-docs"

private val CITIES_TAG = Tag("cities")

private val INTEGER = Regex("[+-]?[0-9]+")
private val TWO_LETTERS = Regex("[A-Za-z]{2}")

private val idOf = Query
    .mapWithNewMeta(
        { text -> text.also { require(it matches INTEGER) }.toLong() },
        { id: Long -> id.toString() },
        IntegerParam,
    )
    .required("id", "a city's number, of 64 bits at most")

private val languageOf = Query
    .map({ text -> text.also { require(it matches TWO_LETTERS) } }, { it })
    .required("language", "two letters, such as en")

private val city = Body.auto<LocalizedCity>().toLens()
private val featuredCities = Body.auto<FeaturedCities>().toLens()
private val message = Body.auto<Message>().toLens()

fun api(routing: Routing, locations: Locations): HttpHandler =
    logging().then(answeringFailures()).then(
        routes(
            "/" bind GET to { says(OK, "locations is ready") },
            routing.routes(locations),
            orElse bind { says(NOT_FOUND, "There is nothing at ${it.method} ${it.uri.path}.") },
        )
    )

private fun contractRoutes(locations: Locations): RoutingHttpHandler = contract {
    renderer = OpenApi3(
        ApiInfo("locations", "1", "Cities by their number, in a language."),
        OpenAPIJackson,
        apiRenderer = ApiRenderer.Auto(OpenAPIJackson),
        errorResponseRenderer = Refusals,
    )
    descriptionPath = API_DOCS_PATH
    routes += CITY_PATH meta {
        tags += CITIES_TAG
        summary = "One city"
        operationId = "city"
        queries += listOf(idOf, languageOf)
        returning(OK, city to PRAGUE, "the city")
        returning(NOT_FOUND, message to Message("There is no city 1."), "there is no such city")
        returningFailures()
    } bindContract GET to getCity(locations)
    routes += FEATURED_PATH meta {
        tags += CITIES_TAG
        summary = "All cities that are featured, by country and number"
        operationId = "featuredCities"
        queries += languageOf
        returning(OK, featuredCities to FeaturedCities(listOf(PRAGUE)), "the cities")
        returningFailures()
    } bindContract GET to getFeaturedCities(locations)
}

private fun RouteMetaDsl.returningFailures() {
    val missing = Message("language is missing: it must be two letters, such as en.")
    returning(BAD_REQUEST, message to missing, "parameters are missing or malformed")
    val silence = Message("Elasticsearch does not answer as it should: try again later.")
    returning(SERVICE_UNAVAILABLE, message to silence, "try again later")
}

private fun plainRoutes(
    locations: Locations,
): RoutingHttpHandler = CatchLensFailure(Refusals::badRequest).then(
    routes(
        CITY_PATH bind GET to checking(idOf, languageOf).then(getCity(locations)),
        FEATURED_PATH bind GET to checking(languageOf).then(getFeaturedCities(locations)),
        API_DOCS_PATH bind GET to apiDocs(),
    )
)

/** All parameters are looked at before the first one is used, so that all that are bad are told. */
private fun checking(vararg parameters: Lens<Request, *>) = Filter { next ->
    { request ->
        Validator.Strict(request, parameters.toList())
        next(request)
    }
}

private fun getCity(locations: Locations): HttpHandler = { request ->
    val id = idOf(request)
    locations.city(id, languageOf(request))
        ?.let { Response(OK).with(city of it) }
        ?: says(NOT_FOUND, "There is no city $id.")
}

private fun getFeaturedCities(locations: Locations): HttpHandler = { request ->
    val cities = FeaturedCities(locations.featuredCities(languageOf(request)))
    Response(OK).with(featuredCities of cities)
}

private fun apiDocs(): HttpHandler {
    val document = checkNotNull(Routing::class.java.getResource("/openapi.json")).readText()
    return { Response(OK).with(CONTENT_TYPE of APPLICATION_JSON).body(document) }
}

private object Refusals : ErrorResponseRenderer {
    override fun badRequest(lensFailure: LensFailure): Response = says(
        BAD_REQUEST,
        lensFailure.failures.joinToString("; ", postfix = ".") {
            val fault = if (it is Missing) "missing" else "malformed"
            "${it.meta.name} is $fault: it must be ${it.meta.description}"
        },
    )
}

private fun logging() = ReportHttpTransaction {
    val query = it.request.uri.query.let { query -> if (query.isEmpty()) "" else "?$query" }
    val target = it.request.uri.path + query
    val status = it.response.status.code
    log.info("{} {} {} {} ms", it.request.method, target, status, it.duration.toMillis())
}

private fun answeringFailures() = Filter { next ->
    { request ->
        try {
            next(request)
        } catch (failure: Unavailable) {
            log.warn(failure.message)
            says(SERVICE_UNAVAILABLE, failure.message.orEmpty())
        } catch (failure: Exception) {
            log.error("{} {} has failed", request.method, request.uri, failure)
            says(INTERNAL_SERVER_ERROR, "The request has failed, and the service's log says why.")
        }
    }
}

fun says(status: Status, text: String): Response = Response(status).with(message of Message(text))

private val PRAGUE = LocalizedCity("CZ", 101748113, true, "Praha", "Hlavní město Praha")
