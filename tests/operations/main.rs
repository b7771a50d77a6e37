//! What operators do and meet: checks, restores, failover, migrations, housekeeping, settings, shutdown.

mod checks;
mod checks_after_restores;
mod checks_of_many_rows;
mod cli;
mod demo;
mod dependencies;
mod event_partitions;
mod failures_shown;
mod housekeeping;
mod listener_tls;
mod local_servers;
mod migrations;
mod network;
mod observability;
mod one_database;
mod operator_commands;
mod password_change;
mod restored_database;
mod restored_dumps;
mod session_settings;
mod shard_down;
mod shutdown;
mod sqlx_data;
mod switchover;
mod unreplicated_commits;
mod upgraded_database;
