//! What a sandbox may use.

use serde::{Deserialize, Serialize};

/// Limits of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Whole CPUs of quota.
    pub cpu_count: u32,
    /// Memory of the user's processes, MiB.
    pub memory_mib: u32,
    /// Reported size of the writable disk, MiB.
    pub disk_mib: u32,
    /// Processes and threads of the user.
    pub pids_max: u32,
}

/// A limit is out of its range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field} is {value}, allowed are {min} to {max}")]
pub struct ResourcesError {
    field: &'static str,
    value: u32,
    min: u32,
    max: u32,
}

impl Default for Resources {
    /// WeEnv's start tier is 2 cores; E2B's default memory is 1024 MiB, too small for builds, so 2048.
    fn default() -> Self {
        Self {
            cpu_count: 2,
            memory_mib: 2048,
            disk_mib: 10_240,
            pids_max: 4096,
        }
    }
}

impl Resources {
    /// Checks each field against the range that cgroups can hold and a sandbox can start in.
    pub fn check(self) -> Result<Self, ResourcesError> {
        let fields = [
            ("cpu count", self.cpu_count, 1, 1024),
            ("memory (MiB)", self.memory_mib, 64, 16 * 1024 * 1024),
            ("disk (MiB)", self.disk_mib, 64, 1024 * 1024 * 1024),
            ("process limit", self.pids_max, 16, 4_194_304),
        ];
        for (field, value, min, max) in fields {
            if value < min || value > max {
                return Err(ResourcesError {
                    field,
                    value,
                    min,
                    max,
                });
            }
        }
        Ok(self)
    }

    /// The memory limit in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mib) << 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range_and_zero_is_not() {
        assert_eq!(Resources::default().check(), Ok(Resources::default()));
        let none = Resources {
            cpu_count: 0,
            ..Resources::default()
        };
        let error = none.check().expect_err("no cpu").to_string();
        assert_eq!(error, "cpu count is 0, allowed are 1 to 1024");
    }
}
