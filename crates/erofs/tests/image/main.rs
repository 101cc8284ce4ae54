//! Images as users of the crate see them: tars in, files out.

mod fixture;
mod hostile;
mod oracle;
mod random;
mod rules;
mod sparse;
