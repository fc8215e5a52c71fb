use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, Responder, ResponseError, get, web};
use elasticsearch::http::Url;
use serde::Serialize;

use crate::parameters::{self, Language};
use crate::places::{City, Failure, Places};

/// How long Elasticsearch may take, for all that one request asks of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Long enough that requests that are under way at the end are answered.
pub const SHUTDOWN_S: u64 = PATIENCE.as_secs() + 1;

const DESCRIPTION: &str = include_str!("openapi.json");

type Query = web::Query<Vec<(String, String)>>;

/// A city as the service tells of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    country_iso: String,
    id: i64,
    is_featured: bool,
    name: String,
    region_name: String,
}

#[derive(Serialize)]
struct Answers {
    cities: Vec<Answer>,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    message: &'a str,
}

/// Every answer that is none.
#[derive(Debug)]
enum Refusal {
    BadRequest(String),
    NotFound(String),
    Unavailable,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadRequest(message) | Self::NotFound(message) => message,
            Self::Unavailable => "Elasticsearch does not answer; try again later",
        })
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).json(Message { message: &self.to_string() })
    }
}

/// Asks Elasticsearch a first time. The error says what is wrong and what to do.
pub async fn check(url: &Url) -> Result<(), String> {
    let reason = match crate::timeout(PATIENCE, Places::new(url, Arc::default()).ping()).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("no answer within {PATIENCE:?}"),
    };
    Err(format!(
        "cannot ask Elasticsearch at {url}: {reason}; start it, or set ELASTICSEARCH_URL to where \
         it is"
    ))
}

pub fn routes(config: &mut web::ServiceConfig) {
    config.service(get_status).service(get_api_docs).service(get_city).service(get_featured);
}

#[get("/")]
async fn get_status() -> impl Responder {
    web::Json(Status { status: "up" })
}

#[get("/api-docs")]
async fn get_api_docs() -> impl Responder {
    HttpResponse::Ok().content_type("application/json").body(DESCRIPTION)
}

#[get("/city/v1/get")]
async fn get_city(query: Query, places: web::Data<Places>) -> Result<web::Json<Answer>, Refusal> {
    let (id, language) = parameters::city_and_language(&query).map_err(Refusal::BadRequest)?;
    let found = asked(async {
        match places.city(id.0).await? {
            Some(city) => answer(&places, city, &language).await.map(Some),
            None => Ok(None),
        }
    });
    let answer =
        found.await?.ok_or_else(|| Refusal::NotFound(format!("there is no city {}", id.0)))?;
    Ok(web::Json(answer))
}

#[get("/city/v1/featured")]
async fn get_featured(
    query: Query,
    places: web::Data<Places>,
) -> Result<web::Json<Answers>, Refusal> {
    let language = Language::read(&query).map_err(Refusal::BadRequest)?;
    let cities = asked(async {
        let mut cities = Vec::new();
        for city in places.featured().await? {
            cities.push(answer(&places, city, &language).await?);
        }
        Ok(cities)
    });
    Ok(web::Json(Answers { cities: cities.await? }))
}

pub async fn no_such_path() -> HttpResponse {
    Refusal::NotFound("there is nothing at this path by this method".to_owned()).error_response()
}

async fn answer(places: &Places, city: City, language: &Language) -> Result<Answer, Failure> {
    let region = places.region(city.region_id).await?;
    Ok(Answer {
        name: city.names.in_language(&language.0).to_owned(),
        region_name: region.names.in_language(&language.0).to_owned(),
        country_iso: city.country_iso,
        id: city.id,
        is_featured: city.is_featured,
    })
}

/// What Elasticsearch was asked for, if it answers in time. Why it does not is for the log alone.
async fn asked<T>(question: impl Future<Output = Result<T, Failure>>) -> Result<T, Refusal> {
    match crate::timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(failure)) => {
            log::error!("Elasticsearch: {failure}");
            Err(Refusal::Unavailable)
        }
        Err(_) => {
            log::error!("Elasticsearch: no answer within {PATIENCE:?}");
            Err(Refusal::Unavailable)
        }
    }
}
