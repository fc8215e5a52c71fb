//! The resolved plan of a run: what will be done, with nothing implicit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that was decided before the first process started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub suite: Suite,
    /// Folder of the subjects' definitions.
    pub subjects_folder: String,
    /// Decides the order within blocks and every random arrival.
    pub seed: u64,
    pub repeats: u32,
    pub order: Order,
    pub limits: Limits,
    pub placement: Placement,
    pub subjects: Vec<Subject>,
    pub workloads: Vec<Workload>,
    pub load: Load,
    /// In the order they will run.
    pub launches: Vec<Launch>,
    /// In the order they will run.
    pub trials: Vec<Trial>,
    pub report: ReportOptions,
    pub cost: Option<Cost>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    pub name: String,
    pub description: String,
    /// The suite file as it was read.
    pub source: String,
    pub path: String,
}

/// The order of subjects within a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Drawn anew for each block from the seed.
    #[default]
    Random,
    /// As the suite lists them.
    Fixed,
}

/// What each subject may use. `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// CPU quota in CPUs.
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
}

/// Which CPUs who runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    pub subject: Vec<u32>,
    pub generator: Vec<u32>,
}

impl Placement {
    /// Whether nobody shares a CPU.
    #[must_use]
    pub fn is_disjoint(&self) -> bool {
        !self.subject.iter().any(|cpu| self.generator.contains(cpu))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub name: String,
    pub variant: Option<String>,
    pub title: String,
    pub language: String,
    pub description: String,
    /// Environment that the suite adds.
    pub env: std::collections::BTreeMap<String, String>,
    pub version: Option<String>,
    pub build: Option<Build>,
    /// A responder that does nothing but answer: the control that shows what the machine can carry.
    pub control: bool,
    /// Why it will not be started here.
    pub skipped: Option<String>,
    /// Why it could not be built: its needs were there, its build failed.
    pub build_failed: Option<String>,
}

impl Subject {
    /// `name` or `name/variant`: how a subject is told from all others in a run.
    #[must_use]
    pub fn id(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}/{variant}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What building a subject took. `wall_s` and `cpu_s` are of the build that made the artefact, cached or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub wall_ns: u64,
    pub cpu_ns: Option<u64>,
    pub artefact_bytes: u64,
    pub cached: bool,
    /// Hash of everything that went into it.
    pub inputs: String,
}

/// A request and the answer it should get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    pub name: String,
    pub protocol: String,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    pub expect_status: Option<u16>,
    pub expect_body: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    pub warmup_ns: u64,
    pub duration_ns: u64,
    pub interval_ns: u64,
    pub timeout_ns: u64,
    pub connect_timeout_ns: u64,
    /// `None`: as long as the server likes.
    pub requests_per_connection: Option<u64>,
    pub threads: u32,
    /// `uring` or `epoll`.
    pub driver: String,
    pub steps: Vec<Step>,
}

/// One load point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    pub connections: u32,
    /// Streams per connection; 1 for HTTP/1.1.
    pub streams: u32,
    /// Requests in flight per connection without waiting for answers.
    pub pipeline: u32,
    pub arrivals: Arrivals,
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "model")]
pub enum Arrivals {
    /// A new request as soon as a slot falls free.
    Closed,
    /// A fixed schedule, requests per second.
    Constant { rate: f64 },
    /// Exponentially distributed gaps, requests per second on average.
    Poisson { rate: f64 },
}

impl Arrivals {
    /// Requests per second asked for; `None` in a closed loop.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        match self {
            Arrivals::Closed => None,
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => Some(rate),
        }
    }
}

/// One planned start of one subject: in it, all workloads and steps run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub subject: usize,
    pub block: u32,
}

/// One planned trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub launch: usize,
    pub workload: usize,
    pub step: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportOptions {
    /// The subject that others are compared with.
    pub baseline: Option<String>,
    pub markers: Vec<Marker>,
}

/// A vertical line on the charts, set by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Marker {
    pub connections: f64,
    pub label: String,
}

/// What CPU time costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    pub per_vcpu_hour: f64,
}
