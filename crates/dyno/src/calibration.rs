//! The ceilings that `dyno calibrate` measured, kept for later loads to be set beside.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use dyno_analysis::load::Ceiling;
use dyno_archive::LoadRecord;
use dyno_archive::plan::DriverKind;
use dyno_engine::Protocol;
use dyno_observer::facts::read_facts;
use dyno_runner::load::Spec;
use serde::{Deserialize, Serialize};

use crate::here::{self, default_cache_folder};

const FILE: &str = "calibration.json";

/// What is kept, by the shape of the load.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    /// The kernel and processor that it is true of.
    pub machine: String,
    pub ceilings: Vec<Shape>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    pub driver: DriverKind,
    /// HTTP/1.1 in files of before there was another.
    #[serde(default)]
    pub protocol: Protocol,
    /// Several requests in flight on a connection: pipelined, or as streams.
    pub pipelined: bool,
    pub ceiling: Ceiling,
}

impl Kept {
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        std::fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// `None`: nothing is kept, or it is of another machine.
    fn read(folder: &Path) -> Option<Kept> {
        let text = std::fs::read_to_string(folder.join(FILE)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        (kept.machine == machine()).then_some(kept)
    }
}

/// What a calibration is true of.
pub fn machine() -> String {
    let facts = read_facts(here::VERSION, here::COMMIT);
    here::machine_name(&facts)
}

/// The ceiling that a load can be set beside: a closed loop of one thread over plain connections that were all kept.
pub fn ceiling_for(spec: &Spec, record: &LoadRecord) -> Option<Ceiling> {
    if spec.threads() != 1
        || spec.tls.is_some()
        || spec.page_connections.is_some()
        || spec.load.requests_per_connection.is_some()
        || spec.load.ramp_connections_ns.is_some()
        || !spec.step.arrivals.is_closed()
        || record.connections.opened > u64::from(spec.step.connections)
    {
        return None;
    }
    let folder = std::env::var_os("DYNO_CACHE").map_or_else(default_cache_folder, PathBuf::from);
    // Once a connection is upgraded it is like any other of HTTP/2.
    let protocol = if spec.protocol.is_h2() { Protocol::H2c } else { Protocol::H1 };
    let is_like = |shape: &&Shape| {
        shape.driver == spec.load.driver
            && shape.protocol == protocol
            && shape.pipelined == (spec.step.pipeline * spec.step.streams > 1)
    };
    Kept::read(&folder)?.ceilings.iter().find(is_like).map(|shape| shape.ceiling.clone())
}
