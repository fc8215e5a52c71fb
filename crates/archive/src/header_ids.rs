//! The ids of a run's machine, servers and workloads, which its header has for other programs.

use serde::{Deserialize, Serialize};

use dyno_model::run::RunHeader;
use dyno_model::{MachineId, SubjectVersion, WorkloadId};

/// The ids that a run's header has for other programs. They are computed from the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeaderIds {
    machine: MachineId,
    /// In the order of the plan's subjects.
    subjects: Vec<Option<SubjectVersion>>,
    /// In the order of the plan's workloads.
    workloads: Vec<WorkloadId>,
}

impl HeaderIds {
    pub(crate) fn new(header: &RunHeader) -> HeaderIds {
        HeaderIds {
            machine: MachineId::new(&header.facts),
            subjects: header.plan.subjects.iter().map(SubjectVersion::new).collect(),
            workloads: WorkloadId::of_plan(&header.plan),
        }
    }
}
