//! Cities, and the names of their regions, out of Elasticsearch: the same service on Actix Web 2.

#[path = "../../src/parameters.rs"]
mod parameters;
#[path = "../../src/places.rs"]
mod places;
#[path = "../../src/service.rs"]
mod service;
#[path = "../../src/settings.rs"]
mod settings;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use actix_rt::time::timeout;
use actix_web::middleware::Logger;
use actix_web::{App, HttpServer, web};
use env_logger::{Env, Target};

use crate::places::{Places, Regions};
use crate::settings::Settings;

/// The default of 5 s would close connections that a slow load leaves idle.
const KEEP_ALIVE_S: usize = 60;

fn main() -> ExitCode {
    env_logger::Builder::from_env(Env::default().default_filter_or("info"))
        .target(Target::Stdout)
        .init();
    match actix_rt::System::new("locations").block_on(serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("locations-actix: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The error says what is wrong and what to do.
async fn serve() -> Result<(), String> {
    let Settings { port, elasticsearch } = Settings::read()?;
    service::check(&elasticsearch).await?;

    let regions = Arc::new(Regions::default());
    let server = HttpServer::new(move || {
        App::new()
            // One per worker: its connections live in the runtime of the worker, and end with it.
            .app_data(web::Data::new(Places::new(&elasticsearch, Arc::clone(&regions))))
            .configure(service::routes)
            .default_service(web::to(service::no_such_path))
            .wrap(Logger::new("%r %s %D ms"))
    })
    .keep_alive(KEEP_ALIVE_S)
    .shutdown_timeout(service::SHUTDOWN_S)
    .bind((Ipv4Addr::LOCALHOST, port))
    .map_err(|error| format!("cannot listen on port {port}: {error}; choose another --port"))?;
    log::info!("listening on port {}", server.addrs()[0].port());
    server.run().await.map_err(|error| format!("cannot go on: {error}"))
}
