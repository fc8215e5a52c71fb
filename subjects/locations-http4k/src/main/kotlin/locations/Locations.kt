package locations

import org.elasticsearch.ElasticsearchException
import org.elasticsearch.action.get.GetRequest
import org.elasticsearch.action.search.SearchRequest
import org.elasticsearch.client.RequestOptions
import org.elasticsearch.client.RestHighLevelClient
import org.elasticsearch.index.query.QueryBuilders
import org.elasticsearch.search.builder.SearchSourceBuilder
import org.elasticsearch.search.fetch.subphase.FetchSourceContext
import org.http4k.format.Jackson
import java.io.IOException
import java.util.concurrent.ConcurrentHashMap

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

/** As many as Elasticsearch gives at once. */
private const val MOST_CITIES = 10_000

/** Cities and regions as Elasticsearch has them, in the language that is asked for. */
class Locations(private val elasticsearch: RestHighLevelClient) {
    /**
     * There are tens of regions and they do not change, so that none is let go. Cities are too many
     * to be kept.
     */
    private val regions = ConcurrentHashMap<Long, Region>()

    fun city(id: Long, language: String): LocalizedCity? =
        find<City>(CITIES, id)?.localized(language)

    fun featuredCities(language: String): List<LocalizedCity> =
        searchFeatured()
            .sortedWith(compareBy(City::countryIso, City::id))
            .map { it.localized(language) }

    private fun City.localized(language: String) =
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
    private fun regionOf(city: City): Region =
        regions[city.regionId] ?: findRegionOf(city).also { regions[it.id] = it }

    private fun findRegionOf(city: City): Region =
        find(REGIONS, city.regionId)
            ?: throw Unavailable("The region of city ${city.id} is not in Elasticsearch.")

    private inline fun <reified T : Any> find(index: String, id: Long): T? = ask {
        val request = GetRequest(index, id.toString()).fetchSourceContext(WITHOUT_GEOMETRY)
        val document = get(request, RequestOptions.DEFAULT)
        if (document.isExists) Jackson.asA<T>(document.sourceAsString) else null
    }

    private fun searchFeatured(): List<City> = ask {
        val query = SearchSourceBuilder()
            .query(QueryBuilders.termQuery("isFeatured", true))
            .fetchSource(WITHOUT_GEOMETRY)
            .size(MOST_CITIES)
        // Some cities would pass for all of them.
        val request = SearchRequest(CITIES).source(query).allowPartialSearchResults(false)
        search(request, RequestOptions.DEFAULT).hits.map { Jackson.asA<City>(it.sourceAsString) }
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

/** The name in [language], else in English, else in any. */
private fun Names.inLanguage(language: String): String =
    this[language.lowercase()] ?: this["en"] ?: values.first()
