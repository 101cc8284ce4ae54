//! netns.
