//! The node over HTTP, on a machine that is played: its agents are real HTTP/2 servers on unix sockets.

mod adoption;
mod agent;
mod catalog;
mod creating;
mod data_plane;
mod ending;
mod fixture;
mod listing;
mod machine;
mod routing;
mod times;
