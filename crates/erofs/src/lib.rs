//! erofs.
