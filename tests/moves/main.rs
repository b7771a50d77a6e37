//! Buckets that move between shards, and deployments that get further shards.

mod bucket_move_faults;
mod bucket_moves;
mod concurrent_moves;
mod feeds_after_moves;
mod growth;
mod moved_buckets;
mod outdated_maps;
