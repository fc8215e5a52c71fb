use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use elasticsearch::http::transport::{SingleNodeConnectionPool, TransportBuilder};
use elasticsearch::http::{StatusCode, Url};
use elasticsearch::{Elasticsearch, GetParts, SearchParts};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// The outline of a place is nearly all of its document, and no answer needs it.
const EXCLUDED: &[&str] = &["geometry"];
/// As many as Elasticsearch gives in one answer unless its settings say otherwise.
const MOST_FEATURED: i64 = 10_000;

/// Why Elasticsearch could not be asked, or what was wrong with its answer.
pub type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct City {
    pub id: i64,
    pub country_iso: String,
    pub region_id: i64,
    pub is_featured: bool,
    pub names: Names,
}

#[derive(Deserialize)]
pub struct Region {
    pub names: Names,
}

/// By the code of the language.
#[derive(Deserialize)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    /// In that language, else in English, else in any.
    pub fn in_language(&self, language: &str) -> &str {
        let name =
            self.0.get(language).or_else(|| self.0.get("en")).or_else(|| self.0.values().next());
        name.map_or("", String::as_str)
    }
}

/// All regions that were asked for: there are few, and they stay as they are.
#[derive(Default)]
pub struct Regions(RwLock<HashMap<i64, Arc<Region>>>);

impl Regions {
    // A panic of another thread leaves the map as it was before or after an insertion.
    fn get(&self, id: i64) -> Option<Arc<Region>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn insert(&self, id: i64, region: Arc<Region>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id, region);
    }
}

/// Places as Elasticsearch has them.
pub struct Places {
    client: Elasticsearch,
    regions: Arc<Regions>,
}

impl Places {
    pub fn new(url: &Url, regions: Arc<Regions>) -> Self {
        let pool = SingleNodeConnectionPool::new(url.clone());
        let transport = TransportBuilder::new(pool).disable_proxy().build();
        // Only TLS could fail here.
        let transport = transport.expect("a client of HTTP can be built");
        Self { client: Elasticsearch::new(transport), regions }
    }

    /// Whether Elasticsearch answers.
    pub async fn ping(&self) -> Result<(), Failure> {
        self.client.ping().send().await?.error_for_status_code()?;
        Ok(())
    }

    pub async fn city(&self, id: i64) -> Result<Option<City>, Failure> {
        self.document("city", id).await
    }

    pub async fn region(&self, id: i64) -> Result<Arc<Region>, Failure> {
        if let Some(region) = self.regions.get(id) {
            return Ok(region);
        }
        let region =
            self.document("region", id).await?.ok_or_else(|| format!("there is no region {id}"))?;
        let region = Arc::new(region);
        self.regions.insert(id, Arc::clone(&region));
        Ok(region)
    }

    /// By country, and in each by id.
    pub async fn featured(&self) -> Result<Vec<City>, Failure> {
        let search = self
            .client
            .search(SearchParts::Index(&["city"]))
            ._source_excludes(EXCLUDED)
            .size(MOST_FEATURED)
            .body(json!({
                "query": { "term": { "isFeatured": true } }, "sort": ["countryIso", "id"],
            }));
        let found: SearchAnswer = search.send().await?.error_for_status_code()?.json().await?;
        Ok(found.hits.hits.into_iter().map(|hit| hit.source).collect())
    }

    async fn document<T: DeserializeOwned>(
        &self,
        index: &str,
        id: i64,
    ) -> Result<Option<T>, Failure> {
        let id = id.to_string();
        let response = self
            .client
            .get(GetParts::IndexId(index, &id))
            ._source_excludes(EXCLUDED)
            .send()
            .await?;
        // A document that is not there is a 404 with `found`; an index that is not there is one
        // without.
        let response = match response.status_code() {
            StatusCode::NOT_FOUND => response,
            _ => response.error_for_status_code()?,
        };
        let answer: Document<T> = response.json().await?;
        Ok(answer.source.filter(|_| answer.found))
    }
}

#[derive(Deserialize)]
struct Document<T> {
    found: bool,
    #[serde(rename = "_source")]
    source: Option<T>,
}

#[derive(Deserialize)]
struct SearchAnswer {
    hits: Hits,
}

#[derive(Deserialize)]
struct Hits {
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(rename = "_source")]
    source: City,
}
