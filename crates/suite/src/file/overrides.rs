//! Workloads of a suite, with the settings of `[load]` that they override.

use std::fmt;

use dyno_config::mistake::{Mistake, mistake};
use dyno_model::plan::{LoadModel, Workload};
use dyno_workload::ReadFile;
use dyno_workload::rates::Rate;
use dyno_workload::workloads::{RawWorkload, SubjectValues, check_workloads};
use serde::de::{Deserializer, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, de, forward_to_deserialize_any};

use crate::settings::{GivenSetting, KnownKey, LoadSettings, SETTINGS, ValueOf};

/// A checked workload, and the settings that it overrides.
#[derive(Debug)]
pub(super) struct SuiteWorkload {
    pub workload: Workload,
    pub overrides: WorkloadOverrides,
}

/// Settings that override those of the load.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkloadOverrides(Vec<GivenSetting>);

/// The table of a workload, as it is written.
#[derive(Debug)]
pub(super) struct WorkloadTable {
    workload: RawWorkload,
    overrides: WorkloadOverrides,
}

/// Checks the workloads of a suite. `subjects`: at least one.
pub(super) fn check(
    tables: Vec<WorkloadTable>,
    subjects: &[SubjectValues<'_>],
    read: ReadFile<'_>,
) -> Result<Vec<SuiteWorkload>, Mistake> {
    let (raw, mut overrides): (Vec<_>, Vec<_>) =
        tables.into_iter().map(|table| (table.workload, table.overrides)).unzip();
    let workloads = check_workloads(raw, subjects, read)?;
    // The default workload of a suite without workloads has no table.
    overrides.resize(workloads.len(), WorkloadOverrides::default());
    let workloads: Vec<SuiteWorkload> = workloads
        .into_iter()
        .zip(overrides)
        .map(|(workload, overrides)| SuiteWorkload { workload, overrides })
        .collect();
    for (i, SuiteWorkload { workload, overrides }) in workloads.iter().enumerate() {
        overrides.check(workload).map_err(|mistake| locate_in_workload(i, mistake))?;
    }
    Ok(workloads)
}

impl SuiteWorkload {
    /// Whether the workload has its own rates.
    pub fn has_rate(&self) -> bool {
        self.overrides.has("rate")
    }

    /// Returns the settings of the load for this workload.
    ///
    /// # Errors
    /// An override contradicts a setting of the load.
    pub fn settings(&self, load: &LoadSettings) -> Result<LoadSettings, Mistake> {
        if self.has_rate() && load.model == Some(LoadModel::Closed) {
            return Err(mistake(
                "rate",
                "`rate`: cannot be used in a closed loop, but [load] has `model = \
                 \"closed\"`\nhint: remove one of the two keys",
            ));
        }
        if self.overrides.has("connections") && load.has("in_flight") {
            let message = "`connections`: cannot be combined with `in_flight` of [load], which \
                           determines the number of connections\nhint: remove one of the two keys";
            return Err(mistake("connections", message));
        }
        let mut settings = load.clone();
        self.overrides.0.iter().for_each(|given| settings.give(given.clone()));
        Ok(settings)
    }

    /// Whether a mistake of the settings is in a key of this workload, and not in `[load]`.
    pub fn has_key_of(&self, mistake: &Mistake) -> bool {
        mistake.first_key().is_some_and(|key| self.overrides.has(key))
    }
}

/// Adds the table of a workload to the position of a mistake. `index`: its index in the suite.
pub(super) fn locate_in_workload(index: usize, mistake: Mistake) -> Mistake {
    mistake.with_parent(index).with_parent("workloads")
}

impl WorkloadOverrides {
    /// Overrides the rates of the load.
    pub fn set_rates(&mut self, rates: Vec<Rate>) {
        self.0.push(GivenSetting::from_rates(rates));
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|given| given.setting.key == key)
    }

    /// Checks the values, and that they have an effect on this workload.
    fn check(&self, workload: &Workload) -> Result<(), Mistake> {
        let has_an_effect = |key: &str| {
            let mut values = self.0.iter().filter(|given| given.setting.key == key);
            values.any(|given| given.counts().iter().any(|n| *n != 1))
        };
        if has_an_effect("pipeline") && workload.sequence.is_some() {
            return Err(mistake("pipeline", NO_PIPELINED_STEPS));
        }
        if has_an_effect("streams") && !workload.protocol.is_h2() {
            return Err(mistake("streams", NO_STREAMS));
        }
        if has_an_effect("pipeline") && workload.protocol.is_h2() {
            return Err(mistake("pipeline", NO_PIPELINE));
        }
        self.0.iter().try_for_each(GivenSetting::check_list)
    }
}

/// Message for a pipeline in a sequence.
pub(super) const NO_PIPELINED_STEPS: &str = concat!(
    "`pipeline`: cannot be combined with `steps`, because a visitor sends its requests one after ",
    "the other\n",
    "hint: remove `pipeline`, or use more `connections`",
);

const NO_STREAMS: &str = "`streams`: needs HTTP/2, and the workload uses HTTP/1.1\nhint: set \
                          `protocol` to \"h2\" or \"h2c\", or use `pipeline` instead of `streams`";

const NO_PIPELINE: &str =
    "`pipeline`: needs HTTP/1.1, and the workload uses HTTP/2\nhint: use `streams` instead";

impl<'de> Deserialize<'de> for WorkloadTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WorkloadTable, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = WorkloadTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WorkloadTable, A::Error> {
                let mut overrides = WorkloadOverrides::default();
                let other_keys = OtherKeys { map, keys: Vec::new(), overrides: &mut overrides };
                let workload = RawWorkload::deserialize(other_keys)?;
                Ok(WorkloadTable { workload, overrides })
            }
        }

        from.deserialize_map(Table)
    }
}

/// The keys of a workload's table without the settings, which are moved to the overrides.
struct OtherKeys<'a, A> {
    map: A,
    /// Known keys of the table.
    keys: Vec<&'static str>,
    overrides: &'a mut WorkloadOverrides,
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for OtherKeys<'_, A> {
    type Error = A::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let settings = SETTINGS.iter().filter(|setting| setting.is_per_workload);
        self.keys = fields.iter().copied().chain(settings.map(|setting| setting.key)).collect();
        visitor.visit_map(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OtherKeys<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key_seed(KnownKey(&self.keys))? {
            match SETTINGS.iter().find(|setting| setting.is_per_workload && setting.key == key) {
                Some(setting) => {
                    self.overrides.0.push(self.map.next_value_seed(ValueOf(setting))?);
                }
                None => return seed.deserialize(key.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
