//! The library as its users see it: images in, templates out, on real files.

mod archives;
mod catalog;
mod disk_full;
mod fixture;
mod layouts;
mod registry;
mod stacked;
