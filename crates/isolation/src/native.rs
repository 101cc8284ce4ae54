//! Native container isolation.
