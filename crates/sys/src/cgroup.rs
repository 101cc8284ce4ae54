//! cgroup.
