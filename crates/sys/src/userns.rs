//! userns.
