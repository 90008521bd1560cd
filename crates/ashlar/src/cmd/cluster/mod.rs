//! `ashlar cluster`: many servers, one router.

mod plan;

use super::Done;
use crate::cli::{Cluster, ClusterCommand};

pub(crate) fn cluster(asked: &Cluster) -> Done {
    match &asked.command {
        ClusterCommand::Plan(plan) => plan::plan(plan),
    }
}
