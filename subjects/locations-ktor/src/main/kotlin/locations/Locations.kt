package locations

import com.fasterxml.jackson.databind.DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES
import com.fasterxml.jackson.module.kotlin.jacksonObjectMapper
import com.fasterxml.jackson.module.kotlin.readValue
import kotlinx.coroutines.suspendCancellableCoroutine
import org.elasticsearch.ElasticsearchException
import org.elasticsearch.action.ActionListener
import org.elasticsearch.action.get.GetRequest
import org.elasticsearch.action.get.GetResponse
import org.elasticsearch.client.RequestOptions
import org.elasticsearch.client.RestHighLevelClient
import org.elasticsearch.search.fetch.subphase.FetchSourceContext
import java.io.IOException
import java.util.concurrent.ConcurrentHashMap
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException

/** The name of something, by the language's code of two small letters. */
typealias Names = Map<String, String>

data class City(
    val id: Long,
    val countryIso: String,
    val regionId: Long,
    val isFeatured: Boolean,
    val names: Names,
)

data class Region(val id: Long, val names: Names)

data class LocalizedCity(
    val countryIso: String,
    val id: Long,
    val isFeatured: Boolean,
    val name: String,
    val regionName: String,
)

/** Elasticsearch does not answer, or not as it should. */
class Unavailable(message: String, cause: Exception? = null) : Exception(message, cause)

private const val CITIES = "city"
private const val REGIONS = "region"

/**
 * The geometry is most of a document, and only Elasticsearch needs it: it is left out where it
 * lies.
 */
private val WITHOUT_GEOMETRY = FetchSourceContext(true, emptyArray(), arrayOf("geometry"))

/** Of a document only what is needed is read. */
private val DOCUMENTS = jacksonObjectMapper().disable(FAIL_ON_UNKNOWN_PROPERTIES)

/** Cities and regions as Elasticsearch has them, in the language that is asked for. */
class Locations(private val elasticsearch: RestHighLevelClient) {
    /**
     * There are tens of regions and they do not change, so that none is let go. Cities are too many
     * to be kept.
     */
    private val regions = ConcurrentHashMap<Long, Region>()

    suspend fun city(id: Long, language: String): LocalizedCity? =
        find<City>(CITIES, id)?.localized(language)

    private suspend fun City.localized(language: String) =
        LocalizedCity(
            countryIso,
            id,
            isFeatured,
            names.inLanguage(language),
            regionOf(this).names.inLanguage(language),
        )

    /**
     * Two requests may look for the same region at once; with a lock they would wait for each other
     * instead.
     */
    private suspend fun regionOf(city: City): Region =
        regions[city.regionId] ?: findRegionOf(city).also { regions[it.id] = it }

    private suspend fun findRegionOf(city: City): Region =
        find(REGIONS, city.regionId)
            ?: throw Unavailable("The region of city ${city.id} is not in Elasticsearch.")

    private suspend inline fun <reified T : Any> find(index: String, id: Long): T? = ask {
        val request = GetRequest(index, id.toString()).fetchSourceContext(WITHOUT_GEOMETRY)
        val document = getDocument(request)
        if (document.isExists) DOCUMENTS.readValue<T>(document.sourceAsString) else null
    }

    private inline fun <T> ask(question: RestHighLevelClient.() -> T): T = try {
        elasticsearch.question()
    } catch (failure: IOException) {
        throw unavailable(failure)
    } catch (failure: ElasticsearchException) {
        throw unavailable(failure)
    }

    private fun unavailable(failure: Exception) =
        Unavailable(
            "Elasticsearch does not answer as it should (${failure.inShort()}): try again later.",
            failure,
        )
}

private suspend fun RestHighLevelClient.getDocument(request: GetRequest): GetResponse =
    suspendCancellableCoroutine { continuation ->
        val listener = ActionListener.wrap<GetResponse>(
            continuation::resume,
            continuation::resumeWithException,
        )
        val lookup = getAsync(request, RequestOptions.DEFAULT, listener)
        continuation.invokeOnCancellation { lookup.cancel() }
    }

/** The name in [language], else in English, else in any. */
private fun Names.inLanguage(language: String): String =
    this[language.lowercase()] ?: this["en"] ?: values.first()
